"""Errors of a peer, each with the AMQP error condition that the server sends to the peer (AMQP 1.0 part 2, 2.8.15 to
2.8.17).
"""

from __future__ import annotations


class AmqpError(Exception):
    """The peer broke the protocol. The server closes the connection with `condition`. A SessionError ends only the
    session.
    """

    condition = "amqp:internal-error"


class DecodeError(AmqpError):
    """Bytes that are not an AMQP value, or fields of the wrong type."""

    condition = "amqp:decode-error"


class FramingError(AmqpError):
    """Bytes that are not a frame, or a frame larger than agreed."""

    condition = "amqp:connection:framing-error"


class NotAllowedError(AmqpError):
    """A frame that its sender must not send in this state."""

    condition = "amqp:not-allowed"


class InvalidFieldError(AmqpError):
    """A field with a value that the protocol does not allow."""

    condition = "amqp:invalid-field"


class SessionError(AmqpError):
    """A frame that breaks a session's rules (such as an unknown handle, or no delivery-id)."""

    condition = "amqp:session:unattached-handle"


class HandleInUse(SessionError):
    """An attach with the handle of another link."""

    condition = "amqp:session:handle-in-use"


class WindowViolation(AmqpError):
    """More transfers than the session's incoming window allows."""

    condition = "amqp:session:window-violation"
