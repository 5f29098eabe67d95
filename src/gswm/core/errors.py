"""What a user did that cannot work, said in one line."""


class UserError(Exception):
    """What is wrong and what to do about it, in one line; the command ends with `code`."""

    code = 2
