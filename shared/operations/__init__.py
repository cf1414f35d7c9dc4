"""The actions of LUCIUS: one async function over the ports for each trigger or activity."""
