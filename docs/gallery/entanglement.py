"""
An entanglement witness from a certificate
==========================================

A maximally entangled state of two qubits is mixed with noise: ``p·Φ + (1 - p)·I/4``. The partial transpose of
a separable state is positive semidefinite (Peres; Horodecki). No state with ``p >= 0.4`` has such a partial
transpose, and the infeasibility certificate is an observable that detects the entanglement.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf


def partial_transpose(state):
    """Return the partial transpose with respect to the second qubit."""
    return state.reshape(2, 2, 2, 2).transpose(0, 3, 2, 1).reshape(4, 4)


phi = np.zeros((4, 4))
phi[np.ix_([0, 3], [0, 3])] = 0.5
noise = np.eye(4) / 4


def problem(p):
    """Return the problem of a state with mixing at least ``p`` and semidefinite partial transpose."""
    builder = sf.ProblemBuilder()
    builder.block("p", sf.Nonneg(1))
    builder.lmi("partial transpose", noise, {"p": [partial_transpose(phi - noise)]})
    builder.row("entangled", {"p": [1.0]}, lower=p)
    return builder.build()


for p in (0.3, 0.4):
    print(p, sf.solve(problem(p)).verdict)

# %%
# The largest mixing with such a partial transpose is 1/3, which is also where entanglement begins.

most = sf.optimum(problem(0.0), sf.Objective((np.ones(1),), "max"))
print(most)
assert most.lower <= 1 / 3 <= most.upper

# %%
# The partial transpose of the multiplier of the LMI has a negative expectation for large ``p`` and a
# non-negative one in every separable state. It is an entanglement witness, with a rigorous proof.

result = sf.solve(problem(0.4), rigorous=True)
witness = partial_transpose(result.multiplier("partial transpose"))
print(np.round(witness / np.trace(witness), 3))

fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
mixing = np.linspace(0, 1, 50)
ax.plot(mixing, [np.sum(witness * (p * phi + (1 - p) * noise)) for p in mixing])
ax.axhline(0.0, color="gray", linewidth=0.8)
ax.axvline(1 / 3, color="gray", linewidth=0.8, linestyle=":")
ax.set_xlabel("mixing p; dotted: 1/3")
ax.set_ylabel("expectation of the witness")
plt.show()
