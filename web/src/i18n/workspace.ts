/** Strings of the workspace: navigation, header, commands, notifications and temporary chats. */

export const workspaceStringsEn = {
  usage: "Usage",

  // Notifications
  unread: "New response",
  taskDone: "Task done",
  taskFailed: "Task failed",
  needsAnswer: "Question for you",
  needsApproval: "Approval needed",

  // Header
  actions: "Thread actions",
  branch: "Branch into new thread",
  permissions: "Allowed tools",
  branchTitle: (title: string) => `${title} (branch)`,
  branchedFrom: (title: string) => `Branched from “${title}”`,

  // Commands
  commandNotes: {
    compact: "Summarize earlier messages",
    goal: "Set a goal that stays in the agent’s context",
    model: "Choose a model",
    new: "Start a new thread",
  },
  goal: "Goal",
  summarized: "Earlier messages were summarized",
  notices: {
    compacting: "Summarizing earlier messages…",
    compacted: "Earlier messages were summarized",
    notCompacted: "Couldn’t summarize the thread. Nothing was changed.",
    nothingToCompact: "Nothing to summarize yet",
    unknownModel: "No model with that name",
    nowAnswering: "Now answering:",
  },

  // Temporary chat
  temporary: "Temporary chat",
  temporaryHint: "Not listed, not remembered, and deleted when you leave it.",
  temporaryBanner: "Temporary chat: not listed or remembered. It’s deleted when you leave it.",
  temporaryEnd: "Delete now",
};

export const workspaceStringsZh: typeof workspaceStringsEn = {
  usage: "用量",

  unread: "有新回答",
  taskDone: "任务已完成",
  taskFailed: "任务失败",
  needsAnswer: "有问题待回答",
  needsApproval: "需要批准",

  actions: "对话操作",
  branch: "从这里创建新对话",
  permissions: "已允许的工具",
  branchTitle: (title: string) => `${title}（分支）`,
  branchedFrom: (title: string) => `从“${title}”分出`,

  commandNotes: {
    compact: "总结较早的消息",
    goal: "设定一直保留在上下文中的目标",
    model: "选择模型",
    new: "开始新对话",
  },
  goal: "目标",
  summarized: "较早的消息已总结",
  notices: {
    compacting: "正在总结较早的消息…",
    compacted: "较早的消息已总结",
    notCompacted: "无法总结对话。没有任何更改。",
    nothingToCompact: "还没有需要总结的内容",
    unknownModel: "没有这个名称的模型",
    nowAnswering: "当前模型：",
  },

  temporary: "临时对话",
  temporaryHint: "不会列出，不会记住，离开后即删除。",
  temporaryBanner: "临时对话：不会列出或记住，离开后即删除。",
  temporaryEnd: "立即删除",
};
