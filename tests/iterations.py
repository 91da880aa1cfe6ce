"""Single iterations of the structured interior-point method."""

from __future__ import annotations

from collections.abc import Callable

from sdpfeas.backends.ipm.structured_embedding import StructuredEmbedding
from sdpfeas.backends.ipm.structured_method import predictor_corrector
from sdpfeas.deadline import Deadline


def iterate_once(
    embedding: StructuredEmbedding, preview: Callable[[StructuredEmbedding, float], bool] | None = None
) -> float:
    """Run one predictor–corrector iteration; return its step length."""
    before = embedding.iteration
    predictor_corrector(embedding, Deadline(None), before + 1, lambda _: None, preview=preview)
    assert embedding.iteration == before + 1
    return embedding.step_length
