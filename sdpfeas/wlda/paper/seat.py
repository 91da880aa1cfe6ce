"""A place where experiments run: a worker of studies with another program in it.

Cap and memory limit are watched, and enforced, from outside, as for every cell of a study.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from sdpfeas.study.process import End, Run, Worker
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.settings import Settings
from sdpfeas.study.worker import Job

__all__ = ["ExperimentSeat"]

LAUNCH = "import sys; from sdpfeas.wlda.paper.worker import main; main(sys.argv[1:])"


@dataclass(frozen=True)
class _Capped(Settings):
    """Settings under which a cell is killed at its time limit: methods know nothing of one."""

    @property
    def hard_limit(self) -> float:
        return self.time_limit


class ExperimentSeat:
    """Runs one experiment at a time.

    Parameters
    ----------
    reaper : Reaper
        Kills the child should this process die.
    """

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._worker: Worker | None = None

    def run(self, job: Job, settings: Settings, stop: threading.Event) -> Run:
        """Run an experiment; whatever goes wrong costs this child, and this run, only.

        Parameters
        ----------
        job : Job
            Its problem is the pickled :class:`~sdpfeas.wlda.paper.experiment.Experiment`.
        settings : Settings
            The limits; the cap is counted from when the data are there.
        stop : Event
            Ends it early.

        Returns
        -------
        Run
            The claim of its answer is the :class:`~sdpfeas.wlda.paper.experiment.Outcome`.

        Raises
        ------
        Interrupted
            If ``stop`` is set before it is done.
        """
        if self._worker is None or not self._worker.fit:
            self.close()
            self._worker = Worker(settings.threads, self._reaper, LAUNCH)
        run = self._worker.run(job, _Capped(**settings.plain()), stop)
        if run.end is End.TIMEOUT:
            return replace(run, detail="killed at the cap")
        if run.answer is not None and isinstance(run.answer.claim, str):
            return replace(run, end=End.ERROR, detail=run.answer.claim, answer=None)
        return run

    def close(self) -> None:
        """End the child."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
