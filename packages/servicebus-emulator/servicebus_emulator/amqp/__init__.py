"""AMQP 1.0 without sockets: types, performatives, frames and the state of a connection."""
