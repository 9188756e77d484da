"""How JupyterLab serves the course: `jupyter lab notebooks --config=tools/jupyter_server_config.py`."""

import os

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class PromptConnection(ZMQChannelsWebsocketConnection):
    """Sends each message of a kernel at once.

    Small ones would otherwise wait until the browser has confirmed the one before, for which it takes up to 40 ms: a
    slider would lag behind.
    """

    async def connect(self):
        self.websocket_handler.set_nodelay(True)
        await super().connect()


def save_as_committed(model: dict, **_) -> None:
    """Before a notebook is saved: what differs from run to run and from machine to machine goes, as in tools/refresh.py,
    so that git shows what a reader changed and nothing else.

    Of a widget with a picture beside it only the picture stays. Once its kernel has ended, JupyterLab would show an error
    in the place of the widget and not the picture.
    """
    if model["type"] != "notebook" or not model.get("content"):
        return
    if "language_info" in model["content"].get("metadata", {}):
        model["content"]["metadata"]["language_info"] = {"name": "python"}
    for cell in model["content"].get("cells", []):
        cell.get("metadata", {}).pop("execution", None)
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output["data"].pop(WIDGET_VIEW, None)


c = get_config()  # noqa: F821
# Else a kernel would first send the value of a slider back to it, and the picture would wait behind that message.
os.environ.setdefault("JUPYTER_WIDGETS_ECHO", "0")
c.ServerApp.kernel_websocket_connection_class = PromptConnection
c.ContentsManager.pre_save_hook = save_as_committed
