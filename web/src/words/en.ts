/** Every word of the page, in English. The other languages have exactly these keys. */
export const en = {
  // Threads
  threads: "Threads",
  newThread: "New thread",
  untitled: "Untitled thread",
  today: "Today",
  yesterday: "Yesterday",
  earlier: "Earlier",
  noThreads: "No threads yet. The first one begins with your first message.",
  threadsUnavailable: "The list could not be loaded.",
  deleteThread: (title: string) => `Delete “${title}”`,
  threadDeleted: "Thread deleted",
  undo: "Undo",
  showThreads: "Show threads",
  hideThreads: "Hide threads",
  answering: "Answering",

  // Composer
  messagePlaceholder: "Ask anything, or describe a task",
  message: "Message",
  send: "Send",
  stop: "Stop",
  stopping: "Stopping",
  composerHint: "Enter to send, Shift+Enter for a new line",
  runningHint: "Esc to stop",

  // Models
  model: "Model",
  chooseModel: "Choose the model that answers",
  noModel: "No model",
  think: "Think before answering",
  scriptedNotice: "Scripted demo model. For real answers set OPENAI_API_KEY or run",
  reloadModels: "Load the models again",

  // Empty page
  greeting: "What shall we work on?",
  greetingHint: "Describe a task or ask a question. Answers appear here as they are written.",
  starters: "Suggestions",
  starterTitles: {
    tour: "What is DeerFlow?",
    formatting: "Show me what an answer can look like",
    "real-model": "How do I connect a real model?",
  },

  // Conversation
  conversation: "Conversation",
  you: "You",
  thinking: "Thinking",
  thought: "Thought about it",
  thoughtFor: (duration: string) => `Thought for ${duration}`,
  jumpToLatest: "Jump to latest",
  showEarlier: "Show earlier messages",
  copied: "Copied",
  copyCode: "Copy code",
  copyAnswer: "Copy answer",
  imageLink: (description: string) => `Image: ${description}`,
  taskDone: "Done",
  taskOpen: "To do",
  loadingThread: "Loading the thread",

  // Tools
  toolVerbs: {
    run: ["Running", "Ran", "Failed to run"],
    read: ["Reading", "Read", "Failed to read"],
    write: ["Writing", "Wrote", "Failed to write"],
    list: ["Listing", "Listed", "Failed to list"],
    search: ["Searching", "Searched", "Failed to search"],
    fetch: ["Fetching", "Fetched", "Failed to fetch"],
    use: ["Using", "Used", "Failed to use"],
  },
  toolInput: "Input",
  toolOutput: "Output",
  toolNoOutput: "No output",
  toolUnfinished: "not finished",

  // What went wrong
  reconnecting: "The connection was lost. Reconnecting; nothing that was written is lost.",
  offline: "You are offline. What is loaded stays readable.",
  notSent: "Not sent.",
  notSentUnreachable: "Not sent: the server did not answer. Your message is kept here.",
  notSentBusy: "Not sent: this thread is still answering another message.",
  sendAgain: "Send again",
  reasons: {
    ServerStopped: "The server stopped while it was answering.",
  },
  runFailed: "The answer broke off.",
  runFailedKept: "What was written up to then is kept above.",
  runStopped: "Stopped. What was written is kept.",
  threadMissing: "This thread does not exist",
  threadMissingHint: "It may have been deleted, or the address is incomplete.",
  threadUnavailable: "This thread could not be loaded",
  threadUnavailableHint: "The server did not answer. Nothing is lost; try again in a moment.",
  tryAgain: "Try again",

  // Settings
  settings: "Settings",
  theme: "Theme",
  themeSystem: "System",
  themeLight: "Light",
  themeDark: "Dark",
  language: "Language",

  // Status for those who listen
  statusAnswering: "Answering",
  statusDone: "Answer complete",
  statusStopped: "Stopped",
  statusFailed: "The answer broke off",
  statusReconnecting: "Connection lost, reconnecting",
};
