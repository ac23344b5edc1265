"""What a process knows of its models' tokens: learned from each call, and after a start from the log."""

from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from agent_core.context.estimates import UNCALIBRATED, Calibration, Weight

_MODELS = 200


class Calibrations:
    """The calibration of each model; *observe* is called with the relative error of each estimate."""

    def __init__(self, observe: Callable[[float], None] | None = None) -> None:
        self._observe = observe
        self._calibrations: OrderedDict[str, Calibration] = OrderedDict()

    def __contains__(self, model: str) -> bool:
        return model in self._calibrations

    def of(self, model: str) -> Calibration:
        """Return what is known of the tokens of *model*."""
        return self._calibrations.get(model, UNCALIBRATED)

    def learn(self, model: str, prompt: Weight, measured: int, estimated: int | None) -> None:
        """Take in that a *prompt* of *model* was counted, see `Calibration.after`."""
        calibration = self.of(model)
        self._keep(model, calibration.after(prompt, measured, estimated))
        if self._observe is not None and (wrong := calibration.wrong(prompt, measured, estimated)) is not None:
            self._observe(wrong)

    def restore(self, model: str, prompt: Weight, measured: int) -> None:
        """Take in a call of the log, of a model that was not asked here: how wrong its estimate was is unknown."""
        calibration = UNCALIBRATED.after(prompt, measured)
        if model not in self._calibrations and calibration.calls:
            self._keep(model, replace(calibration, error=UNCALIBRATED.error))

    def _keep(self, model: str, calibration: Calibration) -> None:
        self._calibrations[model] = calibration
        if len(self._calibrations) > _MODELS:
            self._calibrations.popitem(last=False)
