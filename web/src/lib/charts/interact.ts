// Pointer, wheel and keys of a chart, as an attachment.

export interface Actions {
  /** The pointer is at this position of the drawing; absent: it has left. */
  point(x: number | undefined, client?: { x: number; y: number }): void;
  /** A range is being selected; absent: no longer. */
  select(range: [number, number] | undefined): void;
  /** Shows only this range of the drawing. */
  zoom(from: number, to: number): void;
  /** Magnifies around a position: a factor below 1 shows less. */
  scale(at: number | undefined, factor: number): void;
  /** Moves what is shown by this distance. */
  pan(distance: number): void;
  /** Shows everything. */
  reset(): void;
  /** Moves to the next value, or the first or last one. */
  step(by: number | 'first' | 'last'): void;
}

/** A drag below this length is a click. */
const CLICK = 4;
/** Distance of a step of panning by key. */
const PAN = 60;
const IN = 0.7;

export function interact(actions: Actions): (node: HTMLElement) => () => void {
  return (node) => {
    let drag: { from: number; last: number; isPan: boolean } | undefined;
    const place = (event: MouseEvent) => event.clientX - node.getBoundingClientRect().left;

    const keys: Record<string, () => void> = {
      ArrowLeft: () => actions.step(-1),
      ArrowRight: () => actions.step(1),
      Home: () => actions.step('first'),
      End: () => actions.step('last'),
      '+': () => actions.scale(undefined, IN),
      '=': () => actions.scale(undefined, IN),
      '-': () => actions.scale(undefined, 1 / IN),
      '0': () => actions.reset(),
      Escape: () => actions.point(undefined),
    };
    const panning: Record<string, () => void> = { ArrowLeft: () => actions.pan(-PAN), ArrowRight: () => actions.pan(PAN) };

    const listeners: { [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void } = {
      pointerdown: (event) => {
        if (event.button !== 0) return;
        drag = { from: place(event), last: place(event), isPan: event.shiftKey };
        node.setPointerCapture(event.pointerId);
      },
      pointermove: (event) => {
        const now = place(event);
        actions.point(now, { x: event.clientX, y: event.clientY });
        if (drag === undefined) return;
        if (drag.isPan) actions.pan(drag.last - now);
        else actions.select(Math.abs(now - drag.from) < CLICK ? undefined : [Math.min(drag.from, now), Math.max(drag.from, now)]);
        drag.last = now;
      },
      pointerup: (event) => {
        const now = place(event);
        if (drag !== undefined && !drag.isPan && Math.abs(now - drag.from) >= CLICK) actions.zoom(Math.min(drag.from, now), Math.max(drag.from, now));
        drag = undefined;
        actions.select(undefined);
      },
      pointercancel: () => {
        drag = undefined;
        actions.select(undefined);
        actions.point(undefined);
      },
      pointerleave: () => drag === undefined && actions.point(undefined),
      blur: () => actions.point(undefined),
      dblclick: () => actions.reset(),
      wheel: (event) => {
        // Elsewhere the wheel scrolls the page, past many charts.
        if (!event.ctrlKey && document.activeElement !== node) return;
        event.preventDefault();
        const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (isAcross) actions.pan(event.deltaX || event.deltaY);
        else actions.scale(place(event), Math.exp(Math.min(Math.max(event.deltaY, -240), 240) * 0.003));
      },
      keydown: (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const run = (event.shiftKey ? panning[event.key] : undefined) ?? keys[event.key];
        if (run === undefined) return;
        event.preventDefault();
        run();
      },
    };
    // Keys need focus; the role is that of the element.
    node.tabIndex = 0;
    for (const [name, listener] of Object.entries(listeners)) node.addEventListener(name, listener as EventListener, { passive: false });
    return () => {
      for (const [name, listener] of Object.entries(listeners)) node.removeEventListener(name, listener as EventListener);
    };
  };
}
