/** A store: one state, one pure reducer, listeners told at most once a frame where asked. */

export interface Store<State, Action> {
  get(): State;
  dispatch(action: Action): void;
  /** Reduces at once, tells the listeners with the next frame: for events that come faster than anyone can see. */
  dispatchQuietly(action: Action): void;
  subscribe(listener: () => void): () => void;
}

/** Calls back before the next picture is drawn. */
export type NextFrame = (callback: () => void) => void;

export function createStore<State, Action>(
  reduce: (state: State, action: Action) => State,
  initial: State,
  nextFrame: NextFrame,
): Store<State, Action> {
  const listeners = new Set<() => void>();
  let state = initial;
  let told = initial;
  let waiting = false;

  function tell(): void {
    if (state === told) return;
    told = state;
    for (const listener of listeners) listener();
  }

  return {
    get: () => state,
    dispatch(action) {
      state = reduce(state, action);
      tell();
    },
    dispatchQuietly(action) {
      state = reduce(state, action);
      if (waiting) return;
      waiting = true;
      nextFrame(() => {
        waiting = false;
        tell();
      });
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
