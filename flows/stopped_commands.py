"""What the command line says when it is stopped: what the same command does then."""

from typing import Any

import click

_GOES_ON, _MAY_BE_DONE = (
    "The same command goes on where it was.",
    "`chaffinch promoted` says whether it was done.",
)
_AFTER_A_STOP = {
    **dict.fromkeys(("run", "reselect", "compare", "reproduce"), _GOES_ON),
    "descend": "The same command goes on where it was seconds ago.",
    **dict.fromkeys(("promote", "rollback"), _MAY_BE_DONE),
    "serve": "The same command serves again.",
}
_BEGINS_ANEW = "The same command begins anew."


class Commands(click.Group):
    """Commands, each of which knows what a stop of it leaves behind."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a stop takes a note with it of what the same command does then."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            error.add_note(_AFTER_A_STOP.get(str(ctx.invoked_subcommand), _BEGINS_ANEW))
            raise
