import pytest


@pytest.fixture
def messages(monkeypatch):
    """Lets an explorer tell which of its widgets sends a message to the browser."""

    def listen(explorer):
        senders = []
        for widget in (*explorer.controls.values(), explorer.view):
            send = lambda data=None, sender=widget, **rest: senders.append(sender)  # noqa: E731
            monkeypatch.setattr(widget.comm, "send", send)
        return senders

    return listen
