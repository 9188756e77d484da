"""What every explorer is: controls above a live view, and a pure function from what they say to
panels and a caption.

The tests call the functions over their whole range; a control only calls the function and hands the
result to the view.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import ipywidgets as widgets

from attn_core.show import texts
from attn_core.show.live.view import AttentionView, MimeBundle, with_picture
from attn_core.show.panels import Panel

PROBLEM = "This setting cannot be shown: "
FAULT = "The explorer has a fault, which its log describes: "
LOG = logging.getLogger("attn_core.show")

Shown = tuple[list[Panel], str]  # the panels and the caption below them
Choice = tuple[Sequence[int], int]  # what a control may say, in ascending order, and what it is to say


class Stored(NamedTuple):
    """What an explorer offers on a page without a kernel, where all frames are computed when the
    page is made.

    offered: by argument the values on offer, or (label, value) pairs; where not given, all that the
    control has.
    stays_full: controls that, when at their last value, go to the last one again where another
    changes what is legal.
    """

    offered: Mapping[str, Sequence] = {}
    stays_full: Sequence[str] = ()


class Computed(NamedTuple):
    """What an explorer offers on a page without a kernel where there are too many states to store.

    function: its name in COMPUTED, where the script beside the explorer's module puts it; it
    computes each frame.
    pieces: what else it gets, made in Python so that no text stands in two places.
    rows: what is legal among the listed controls, as places among their values; then what else the
    function gets.
    offered: as in Stored.
    """

    function: str
    pieces: Mapping[str, Any]
    rows: Sequence[Sequence] = ()
    listed: Sequence[str] = ()
    offered: Mapping[str, Sequence] = {}


class Explorer(widgets.VBox):
    """Controls above a view.

    name: what is explored. controls: by the name of the argument that each feeds. compute: a pure
    function from those arguments to panels and a caption. For a setting that cannot be shown it
    raises ValueError or TypeError with a sentence, which the reader sees below the last picture.
    Any other error is a fault, and goes to the log as well.
    fit: takes the same arguments after each move and returns, for controls whose choices depend on
    others, the choices that are legal now and the one to take: {"num_heads": ([1, 2, 4], 4)}.
    offline: makes what it offers on a page without a kernel, Stored or Computed; it is called when
    a page is made.
    """

    def __init__(
        self,
        name: str,
        controls: dict[str, widgets.Widget],
        compute: Callable[..., Shown],
        fit: Callable[..., dict[str, Choice]] = lambda **_: {},
        offline: Callable[[], Stored | Computed] = Stored,
    ) -> None:
        self.name, self.controls, self.compute, self._fit, self.offline = name, controls, compute, fit, offline
        self._offering = False
        self.view = AttentionView(*compute(**self.settings), name)
        for control in controls.values():
            control.style = {"description_width": "110px"}
            control.layout.width = control.layout.width or "min(100%, 420px)"
            control.observe(self._refresh, "value")
        super().__init__([*controls.values(), self.view])

    @property
    def settings(self) -> dict:
        """What the controls say at the moment."""
        return {argument: control.value for argument, control in self.controls.items()}

    def _refresh(self, _change: object) -> None:
        if self._offering:
            return
        choices = self._fit(**self.settings)
        settings = self.settings | {argument: chosen for argument, (_, chosen) in choices.items()}
        with self.view.hold_sync():
            try:
                self.view.panels, self.view.caption = self.compute(**settings)
            except (ValueError, TypeError) as refusal:
                self.view.problem = f"{PROBLEM}{refusal}"
                LOG.debug("the explorer of %s refuses %s", self.name, settings, exc_info=True)
            except Exception as error:  # a mistake in the function: the reader sees it, its author has to mend it
                self.view.problem = f"{FAULT}{error}"
                LOG.exception("the explorer of %s fails at %s", self.name, settings)
            else:
                self.view.problem = ""
        # The picture went first: it is what the reader waits for.
        self._offering = True
        try:
            for argument, (options, chosen) in choices.items():
                _offer(self.controls[argument], options, chosen)
        finally:
            self._offering = False

    def __repr__(self) -> str:
        return f"Explorer of {self.name}: {self.view.caption}"

    def _repr_mimebundle_(self, **options: Any) -> MimeBundle:
        return with_picture(self, super()._repr_mimebundle_(**options), self.view)


def number_slider(description: str, numbers: Sequence[int], value: int) -> widgets.SelectionSlider:
    """A slider over these numbers."""
    return widgets.SelectionSlider(options=_labelled(numbers), value=value, description=description)


def values_of(slider: widgets.Widget) -> list:
    """Every value that a slider can be moved to, in order.

    Counted in decimals: three steps of 0.1 are 0.3, as the slider says, not 0.30000000000000004.
    """
    if hasattr(slider, "options"):
        return [option[1] if isinstance(option, tuple) else option for option in slider.options]
    first, last, step = (Decimal(str(number)) for number in (slider.min, slider.max, slider.step))
    kind = int if isinstance(slider, widgets.IntSlider) else float
    return [kind(first + i * step) for i in range(int((last - first) / step) + 1)]


def _labelled(numbers: Sequence[int]) -> tuple[tuple[str, int], ...]:
    return tuple((texts.number(number, ","), number) for number in numbers)


def _offer(control: widgets.SelectionSlider | widgets.IntSlider, options: Sequence[int], chosen: int) -> None:
    if isinstance(control, widgets.IntSlider):
        with control.hold_sync():
            control.max, control.value = options[-1], chosen
    elif control.options != _labelled(options):
        # Not in one message: the browser would set the handle before it knew the new range, and
        # send a wrong end back.
        control.options = _labelled(options)  # selects the first of them
        control.value = chosen
