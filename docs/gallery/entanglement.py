"""
An entanglement witness from a certificate
==========================================

Mix a maximally entangled state of two qubits with noise: ``p·Φ + (1 - p)·I/4``. If the state is separable,
its partial transpose is positive semidefinite (Peres; Horodecki). So ask for a noisy state with ``p >=
0.4`` whose partial transpose is: there is none, and the certificate is an observable that shows it.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf


def partial_transpose(state):
    """Transpose the second qubit."""
    return state.reshape(2, 2, 2, 2).transpose(0, 3, 2, 1).reshape(4, 4)


phi = np.zeros((4, 4))
phi[np.ix_([0, 3], [0, 3])] = 0.5
noise = np.eye(4) / 4


def problem(p):
    """A state at least as entangled as ``p`` with a positive partial transpose."""
    builder = sf.ProblemBuilder()
    builder.block("p", sf.Nonneg(1))
    builder.lmi("partial transpose", noise, {"p": [partial_transpose(phi - noise)]})
    builder.row("entangled", {"p": [1.0]}, lower=p)
    return builder.build()


for p in (0.3, 0.4):
    print(p, sf.solve(problem(p)).verdict)

# %%
# The multiplier of the matrix inequality, transposed back, has a negative mean where ``p`` is large and a
# non-negative one in every separable state: an entanglement witness, and it was proved to be one.

result = sf.solve(problem(0.4), rigorous=True)
witness = partial_transpose(result.multiplier("partial transpose"))
print(np.round(witness / np.trace(witness), 3))

fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
mixing = np.linspace(0, 1, 50)
ax.plot(mixing, [np.sum(witness * (p * phi + (1 - p) * noise)) for p in mixing])
ax.axhline(0.0, color="gray", linewidth=0.8)
ax.axvline(1 / 3, color="gray", linewidth=0.8, linestyle=":")
ax.set_xlabel("p, the share of the entangled state; dotted: 1/3")
ax.set_ylabel("mean of the witness")
plt.show()
