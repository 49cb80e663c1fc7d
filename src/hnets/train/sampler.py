"""How a trial's values are drawn: from a seed and the trial's number, whoever takes it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hnets.errors import MissingExtra
from hnets.train.space import Range, Space

try:
    from optuna import Study
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler, TPESampler
    from optuna.trial import FrozenTrial
except ModuleNotFoundError:
    raise MissingExtra("searches", "optuna", "search") from None

__all__ = ["ByNumber", "Method", "distributions"]

Method = Literal["random", "tpe"]


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """A space in Optuna's words.

    >>> distributions({"training.batch": Range(1, 9)})
    {'training.batch': IntDistribution(high=9, log=False, low=1, step=1)}
    """
    found = dict[str, BaseDistribution]()
    for key, wanted in space.items():
        if not isinstance(wanted, Range):
            found[key] = CategoricalDistribution(wanted.choices)
        elif isinstance(wanted.low, int) and isinstance(wanted.high, int):
            found[key] = IntDistribution(wanted.low, wanted.high, log=wanted.log)
        else:
            found[key] = FloatDistribution(wanted.low, wanted.high, log=wanted.log)
    return found


class ByNumber(BaseSampler):
    """A sampler of Optuna's, with a seed of its own for every trial.

    Processes that share a study, and one that goes on with it, would otherwise draw the same
    values again. Trial 7 of a random search has the same ones on every machine.
    """

    def __init__(self, method: Method, seed: int) -> None:
        self._kind = {"random": RandomSampler, "tpe": TPESampler}[method]
        self._seed = seed
        self._sampler: BaseSampler = self._kind()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Begin anew for the next trial."""
        drawn = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)
        self._sampler = self._kind(seed=int(drawn[0]))

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """What is drawn together."""
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw values together."""
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw one value."""
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)
