/** State store with a pure reducer and batched notifications. */

export interface Store<State, Action> {
  get(): State;
  dispatch(action: Action): void;
  /** Reduce now and notify listeners with the next frame, for high-frequency events. */
  dispatchBatched(action: Action): void;
  subscribe(listener: () => void): () => void;
}

/** Schedules a callback before the next paint. */
export type NextFrame = (callback: () => void) => void;

export function createStore<State, Action>(
  reduce: (state: State, action: Action) => State,
  initial: State,
  nextFrame: NextFrame,
): Store<State, Action> {
  const listeners = new Set<() => void>();
  let state = initial;
  let notified = initial;
  let isScheduled = false;

  function notify(): void {
    if (state === notified) return;
    notified = state;
    for (const listener of listeners) listener();
  }

  return {
    get: () => state,
    dispatch(action) {
      state = reduce(state, action);
      notify();
    },
    dispatchBatched(action) {
      state = reduce(state, action);
      if (isScheduled) return;
      isScheduled = true;
      nextFrame(() => {
        isScheduled = false;
        notify();
      });
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
