/** Strings of the dialog that connects models, loaded with it. */

/** Parts of the sentences. */
interface Values {
  readonly host: string;
  readonly model: string;
  readonly command: string;
}

interface ProblemText {
  readonly message: (values: Values) => string;
  readonly remedy: (values: Values) => string;
}

/** Problems by their code in the API. */
const problemsEn = {
  bad_key: {
    message: ({ host }) => `${host} refused the key.`,
    remedy: () => "Copy the whole key again, or create a new one at the provider.",
  },
  no_credit: {
    message: ({ host }) => `The account at ${host} has no credit left.`,
    remedy: () => "Add credit or a payment method at the provider, then check again.",
  },
  wrong_host: {
    message: ({ host }) => `No model API answers at ${host}.`,
    remedy: () => "Check the address and the port. For a local server, make sure it’s running.",
  },
  missing_v1: {
    message: () => "The address had no /v1, so it was added.",
    remedy: () => "Nothing to do: the corrected address is saved.",
  },
  unknown_model: {
    message: ({ host, model }) => `${host} has no model named ${model}, or the key has no access to it.`,
    remedy: () => "Choose a model from the list, or check the spelling.",
  },
  tls: {
    message: ({ host }) => `The certificate of ${host} couldn’t be verified.`,
    remedy: () =>
      "Use the host name in the certificate, set SSL_CERT_FILE for a private authority, or use http:// for a local server.",
  },
  dns: {
    message: ({ host }) => `The host ${host} wasn’t found.`,
    remedy: () => "Check the spelling of the address, and your connection.",
  },
  timeout: {
    message: ({ host }) => `${host} didn’t answer in time.`,
    remedy: () => "Try again. If it stays like this, check the address, a proxy or a firewall.",
  },
  rate_limited: {
    message: ({ host }) => `${host} is limiting requests at the moment.`,
    remedy: () => "Wait a minute, then check again.",
  },
  region: {
    message: ({ host }) => `${host} doesn’t serve your country or region.`,
    remedy: () => "Use another provider, or an address of this provider for your region.",
  },
  no_tools: {
    message: ({ model }) => `${model} didn’t call a tool.`,
    remedy: () =>
      "Agents need tool calls. Choose another model; on vLLM, start the server with --enable-auto-tool-choice.",
  },
  no_streaming: {
    message: ({ model }) => `${model} doesn’t stream its answers.`,
    remedy: () => "You can use it. Answers appear all at once when they’re complete.",
  },
  no_usage: {
    message: ({ model }) => `${model} doesn’t report token counts.`,
    remedy: () => "You can use it. Usage and costs stay unknown.",
  },
  no_listing: {
    message: ({ host }) => `${host} doesn’t list its models.`,
    remedy: () => "Enter the name of a model below.",
  },
  blocked_address: {
    message: ({ host }) => `${host} is an address that model connections may not use.`,
    remedy: () => "Use the address of a model API on the internet or in your own network.",
  },
  invalid_address: {
    message: () => "This isn’t an address.",
    remedy: () => "Write it like https://api.example.com/v1, without a user name.",
  },
  not_installed: {
    message: () => "The package for this provider isn’t installed.",
    remedy: ({ command }) => `Run \`${command}\` in the environment of DeerFlow, then restart it.`,
  },
  server_error: {
    message: ({ host }) => `${host} has an internal problem.`,
    remedy: () => "Try again later, or look at the provider’s status page.",
  },
  bad_response: {
    message: ({ host }) => `${host} answered in a format that isn’t that of a model API.`,
    remedy: () => "Check the address. It must be that of an OpenAI-compatible API.",
  },
  rejected: {
    message: ({ host }) => `${host} rejected the request.`,
    remedy: () => "Read the provider’s answer under Details, or choose another model.",
  },
} satisfies Readonly<Record<string, ProblemText>>;

export const modelStringsEn = {
  title: "Connect a model",
  intro: "Paste an API key, or choose a provider.",
  anyKey: "API key",
  anyKeyHint: "The provider is recognised from the key where possible.",
  unknownKey: "Which provider is this key from?",
  providers: "Providers",
  onThisMachine: "On this machine",
  modelCount: (count: number) => (count === 1 ? "1 model" : `${count} models`),
  custom: "Other address",
  customHint: "Any OpenAI-compatible API",
  providersUnavailable: "Couldn’t load providers",
  back: "Back",
  key: "API key",
  keyHint: "Stored encrypted. It’s never shown again.",
  keyOptional: "API key (optional)",
  keySaved: "Leave empty to use the saved key.",
  getKey: "Get a key",
  address: "Address",
  addressHint: "For example http://127.0.0.1:8000/v1",
  changeAddress: "Use another address",
  change: "Change key or address",
  check: "Check",
  checkAgain: "Check again",
  checking: "Checking…",
  works: (time: string) => `It works. Checked in ${time}.`,
  worksPartly: (time: string) => `It answers, with limits. Checked in ${time}.`,
  tested: (model: string) => `Tested with ${model}`,
  abilities: { answer: "Answer", streaming: "Streaming", tools: "Tool calls", usage: "Token counts" },
  yes: "yes",
  no: "no",
  mended: "Address used:",
  details: "Details",
  attempts: "Tried:",
  providerSaid: "The provider answered:",
  notChecked: "Couldn’t check.",
  models: "Models",
  filter: "Filter models",
  noMatch: "No model matches.",
  recommended: "Recommended",
  vision: "Vision",
  reasoning: "Reasoning",
  noTools: "No tool calls",
  context: (size: string) => `${size} context`,
  price: (input: string, output: string) => `$${input} in · $${output} out per 1M tokens`,
  otherModel: "Model name",
  otherModelHint: "If it isn’t in the list.",
  add: "Add and test",
  save: (count: number) => (count <= 1 ? "Save" : `Save ${count} models`),
  saveUntested: "Save anyway",
  notSaved: "Couldn’t save. Your entries are still here.",
  shadowed: (name: string) => `config.yaml has a model named ${name}. It’s used instead of the saved one.`,

  // Saved connections
  connections: "Connected providers",
  share: (title: string) => `Share the models of ${title}`,
  shareHint: "All users of this server may use these models.",
  sharedWithYou: "Shared by an administrator",
  connectionsUnavailable: "Couldn’t load connections",
  keyStates: { set: "Key set", none: "No key", unreadable: "Key can’t be decrypted. Enter it again." },
  test: "Test",
  testing: "Testing…",
  replaceKey: "Replace key",
  newKey: "New API key",
  addModels: "Add models",
  remove: "Remove",
  removeModel: (name: string) => `Remove ${name}`,
  removeSure: (title: string) => `Remove ${title} with its key and models?`,
  notChanged: "Couldn’t change it.",
  problems: problemsEn as Readonly<Record<keyof typeof problemsEn, ProblemText>>,
};

const problemsZh: Readonly<Record<keyof typeof problemsEn, ProblemText>> = {
  bad_key: {
    message: ({ host }) => `${host} 拒绝了此密钥。`,
    remedy: () => "请重新完整复制密钥，或在提供商处新建一个。",
  },
  no_credit: {
    message: ({ host }) => `${host} 的账户余额不足。`,
    remedy: () => "请在提供商处充值或添加付款方式，然后重新检查。",
  },
  wrong_host: {
    message: ({ host }) => `${host} 上没有模型接口。`,
    remedy: () => "请检查地址和端口。如果是本地服务，请确认它正在运行。",
  },
  missing_v1: {
    message: () => "地址缺少 /v1，已自动补上。",
    remedy: () => "无需操作：保存的是更正后的地址。",
  },
  unknown_model: {
    message: ({ host, model }) => `${host} 没有名为 ${model} 的模型，或此密钥无权使用它。`,
    remedy: () => "请从列表中选择模型，或检查拼写。",
  },
  tls: {
    message: ({ host }) => `无法验证 ${host} 的证书。`,
    remedy: () => "请使用证书中的主机名；私有证书颁发机构请设置 SSL_CERT_FILE；本地服务可使用 http://。",
  },
  dns: {
    message: ({ host }) => `找不到主机 ${host}。`,
    remedy: () => "请检查地址拼写和网络连接。",
  },
  timeout: {
    message: ({ host }) => `${host} 没有及时响应。`,
    remedy: () => "请重试。如果仍然如此，请检查地址、代理或防火墙。",
  },
  rate_limited: {
    message: ({ host }) => `${host} 正在限制请求频率。`,
    remedy: () => "请等一分钟后重新检查。",
  },
  region: {
    message: ({ host }) => `${host} 不为你所在的国家或地区提供服务。`,
    remedy: () => "请使用其他提供商，或该提供商面向你所在地区的地址。",
  },
  no_tools: {
    message: ({ model }) => `${model} 没有调用工具。`,
    remedy: () => "智能体需要工具调用。请选择其他模型；vLLM 请使用 --enable-auto-tool-choice 启动。",
  },
  no_streaming: {
    message: ({ model }) => `${model} 不支持流式输出。`,
    remedy: () => "仍可使用，回答会在完成后一次性显示。",
  },
  no_usage: {
    message: ({ model }) => `${model} 不返回 Token 用量。`,
    remedy: () => "仍可使用，但用量和费用未知。",
  },
  no_listing: {
    message: ({ host }) => `${host} 不提供模型列表。`,
    remedy: () => "请在下方输入模型名称。",
  },
  blocked_address: {
    message: ({ host }) => `不允许连接到 ${host}。`,
    remedy: () => "请使用互联网上或你自己网络中的模型接口地址。",
  },
  invalid_address: {
    message: () => "这不是有效的地址。",
    remedy: () => "请写成 https://api.example.com/v1 的形式，不含用户名。",
  },
  not_installed: {
    message: () => "此提供商所需的软件包尚未安装。",
    remedy: ({ command }) => `请在 DeerFlow 的环境中运行 \`${command}\`，然后重启。`,
  },
  server_error: {
    message: ({ host }) => `${host} 内部出错。`,
    remedy: () => "请稍后重试，或查看提供商的状态页面。",
  },
  bad_response: {
    message: ({ host }) => `${host} 的响应不是模型接口的格式。`,
    remedy: () => "请检查地址，它必须是兼容 OpenAI 的接口。",
  },
  rejected: {
    message: ({ host }) => `${host} 拒绝了请求。`,
    remedy: () => "请查看“详情”中提供商的回答，或选择其他模型。",
  },
};

export const modelStringsZh: typeof modelStringsEn = {
  title: "连接模型",
  intro: "粘贴 API 密钥，或选择提供商。",
  anyKey: "API 密钥",
  anyKeyHint: "会尽可能根据密钥识别提供商。",
  unknownKey: "这是哪个提供商的密钥？",
  providers: "提供商",
  onThisMachine: "本机",
  modelCount: (count) => `${count} 个模型`,
  custom: "其他地址",
  customHint: "任何兼容 OpenAI 的接口",
  providersUnavailable: "无法加载提供商",
  back: "返回",
  key: "API 密钥",
  keyHint: "加密保存，之后不再显示。",
  keyOptional: "API 密钥（可选）",
  keySaved: "留空则使用已保存的密钥。",
  getKey: "获取密钥",
  address: "地址",
  addressHint: "例如 http://127.0.0.1:8000/v1",
  changeAddress: "使用其他地址",
  change: "更改密钥或地址",
  check: "检查",
  checkAgain: "重新检查",
  checking: "正在检查…",
  works: (time) => `可以使用。检查用时 ${time}。`,
  worksPartly: (time) => `可以回答，但有限制。检查用时 ${time}。`,
  tested: (model) => `已用 ${model} 测试`,
  abilities: { answer: "回答", streaming: "流式输出", tools: "工具调用", usage: "Token 用量" },
  yes: "是",
  no: "否",
  mended: "使用的地址：",
  details: "详情",
  attempts: "已尝试：",
  providerSaid: "提供商的回答：",
  notChecked: "无法检查。",
  models: "模型",
  filter: "筛选模型",
  noMatch: "没有匹配的模型。",
  recommended: "推荐",
  vision: "图像",
  reasoning: "推理",
  noTools: "不支持工具调用",
  context: (size) => `${size} 上下文`,
  price: (input, output) => `每百万 Token：输入 $${input} · 输出 $${output}`,
  otherModel: "模型名称",
  otherModelHint: "如果不在列表中。",
  add: "添加并测试",
  save: (count) => (count <= 1 ? "保存" : `保存 ${count} 个模型`),
  saveUntested: "仍然保存",
  notSaved: "无法保存。你填写的内容仍在这里。",
  shadowed: (name) => `config.yaml 中已有名为 ${name} 的模型，将使用它而不是保存的模型。`,

  connections: "已连接的提供商",
  share: (title: string) => `共享 ${title} 的模型`,
  shareHint: "此服务器的所有用户都可以使用这些模型。",
  sharedWithYou: "由管理员共享",
  connectionsUnavailable: "无法加载连接",
  keyStates: { set: "已设置密钥", none: "没有密钥", unreadable: "无法解密密钥，请重新输入。" },
  test: "测试",
  testing: "正在测试…",
  replaceKey: "更换密钥",
  newKey: "新的 API 密钥",
  addModels: "添加模型",
  remove: "移除",
  removeModel: (name) => `移除 ${name}`,
  removeSure: (title) => `移除 ${title} 及其密钥和模型？`,
  notChanged: "无法更改。",
  problems: problemsZh,
};
