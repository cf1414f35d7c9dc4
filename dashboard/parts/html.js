// Imports of every view: tagged templates over preact, hooks, signals.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
export { render, Fragment } from "preact";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal } from "@preact/signals";
