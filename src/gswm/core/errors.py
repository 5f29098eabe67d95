"""Errors that a user can fix, as one line."""


class UserError(Exception):
    """An error that the user can fix; the message says in one line what is wrong and what to do."""

    code = 2
