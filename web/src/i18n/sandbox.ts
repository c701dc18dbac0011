/** Strings of the sandbox: isolation of commands and the Python packages, loaded when there is something to say. */

const sandboxEn = {
  tiers: {
    isolated: "Sandboxed: no access to your files",
    container: "Sandboxed in a container",
    host: "On this machine, without isolation",
    none: "Off",
  },
  networks: {
    none: "Commands can’t reach the network.",
    allowlist: "Commands reach only the allowed hosts.",
    full: "Commands can reach the network.",
  } as Readonly<Record<string, string>>,
  unsafe: "Commands run on this machine without isolation",
  unsafeHint: "The agent can read, change and delete everything the server’s user account can.",
  commandsOff: "Commands are turned off on this server.",
  details: "Details",
  problems: {
    bubblewrap_missing: {
      text: "Bubblewrap isn’t installed, so commands can’t be isolated.",
      remedy:
        "Install it (`apt install bubblewrap`), use containers, or set `sandbox.allow_host_bash: true` on a machine where nothing can be lost.",
    },
    bubblewrap_failed: {
      text: "Bubblewrap doesn’t work on this machine, so commands can’t be isolated.",
      remedy:
        "Allow unprivileged user namespaces (`sysctl kernel.unprivileged_userns_clone=1`; on Ubuntu `kernel.apparmor_restrict_unprivileged_userns=0`), or use containers.",
    },
    windows: {
      text: "Windows can’t isolate commands.",
      remedy: "Run DeerFlow in WSL2 (`wsl --install`, then install it there) or in a Linux container.",
    },
    sandbox_exec_missing: {
      text: "`sandbox-exec` wasn’t found, so commands can’t be isolated.",
      remedy: "Use containers.",
    },
    sandbox_exec_allowlist: {
      text: "macOS can’t limit commands to a list of hosts.",
      remedy: "Set `sandbox.network` to `none` or `full`, or use containers.",
    },
    engine_missing: {
      text: "Neither Docker nor Podman was found.",
      remedy: "Start one of them, or set `sandbox.engine_url` to its socket.",
    },
    engine_unreachable: {
      text: "The container engine doesn’t respond.",
      remedy: "Check that it runs, and that the server may use its socket.",
    },
    image_missing: {
      text: "The container image is missing.",
      remedy: "Build or pull it, or set `sandbox.image` to another one.",
    },
    image_allowlist: {
      text: "This container image can’t be limited to a list of hosts.",
      remedy:
        "Build `deploy/sandbox` and set `sandbox.image` to it, or set `sandbox.network` to `none` or `full`.",
    },
    container_failed: {
      text: "A test container didn’t start.",
      remedy: "Run `true` in a container of this image to see why.",
    },
    provisioner_unreachable: {
      text: "The provisioner of containers doesn’t respond.",
      remedy: "Start it, or check `sandbox.provisioner_url` and `sandbox.provisioner_api_key`.",
    },
  },
  unknownProblem: {
    text: "Commands can’t be isolated.",
    remedy: "Run `deerflow doctor` on the server to see why.",
  },
  packages: "Python packages",
  toolbox: {
    ready: "Installed",
    building: "Being installed",
    failed: "Couldn’t be installed",
    missing: "Not installed yet",
    off: "Turned off",
  },
  toolboxProgress: (installed: number, total: number) =>
    installed === 0
      ? `Downloading ${total} Python packages for charts, documents and data. This happens once and takes a few minutes; commands that need them wait.`
      : `Installing Python packages for charts, documents and data: ${installed} of ${total}. Commands that need them wait.`,
  toolboxFailed:
    "The Python packages for charts and documents couldn’t be installed. Run `deerflow doctor` on the server to see why.",
};

export type SandboxStrings = typeof sandboxEn;

const sandboxZh: SandboxStrings = {
  tiers: {
    isolated: "在沙箱中运行：无法访问你的文件",
    container: "在容器沙箱中运行",
    host: "直接在本机运行，没有隔离",
    none: "已关闭",
  },
  networks: {
    none: "命令无法访问网络。",
    allowlist: "命令只能访问允许的主机。",
    full: "命令可以访问网络。",
  },
  unsafe: "命令直接在本机运行，没有隔离",
  unsafeHint: "服务器账户能读取、修改和删除的内容，智能体都能。",
  commandsOff: "此服务器已关闭命令执行。",
  details: "详情",
  problems: {
    bubblewrap_missing: {
      text: "未安装 Bubblewrap，无法隔离命令。",
      remedy:
        "请安装它（`apt install bubblewrap`）或改用容器；如果这台机器上没有重要数据，也可设置 `sandbox.allow_host_bash: true`。",
    },
    bubblewrap_failed: {
      text: "Bubblewrap 在这台机器上无法运行，因此无法隔离命令。",
      remedy:
        "请允许非特权用户命名空间（`sysctl kernel.unprivileged_userns_clone=1`；Ubuntu 上为 `kernel.apparmor_restrict_unprivileged_userns=0`），或改用容器。",
    },
    windows: {
      text: "Windows 无法隔离命令。",
      remedy: "请在 WSL2（`wsl --install`，然后在其中安装）或 Linux 容器中运行 DeerFlow。",
    },
    sandbox_exec_missing: {
      text: "未找到 `sandbox-exec`，无法隔离命令。",
      remedy: "请改用容器。",
    },
    sandbox_exec_allowlist: {
      text: "macOS 无法将命令限制在主机列表内。",
      remedy: "请将 `sandbox.network` 设为 `none` 或 `full`，或改用容器。",
    },
    engine_missing: {
      text: "未找到 Docker 或 Podman。",
      remedy: "请启动其中之一，或将 `sandbox.engine_url` 设为它的套接字。",
    },
    engine_unreachable: {
      text: "容器引擎没有响应。",
      remedy: "请检查它是否在运行，以及服务器是否有权使用它的套接字。",
    },
    image_missing: {
      text: "缺少容器镜像。",
      remedy: "请构建或拉取镜像，或将 `sandbox.image` 设为其他镜像。",
    },
    image_allowlist: {
      text: "此容器镜像无法限制在主机列表内。",
      remedy:
        "请构建 `deploy/sandbox` 并设为 `sandbox.image`，或将 `sandbox.network` 设为 `none` 或 `full`。",
    },
    container_failed: {
      text: "测试容器未能启动。",
      remedy: "请在此镜像的容器中运行 `true` 查看原因。",
    },
    provisioner_unreachable: {
      text: "容器供应服务没有响应。",
      remedy: "请启动它，或检查 `sandbox.provisioner_url` 和 `sandbox.provisioner_api_key`。",
    },
  },
  unknownProblem: {
    text: "无法隔离命令。",
    remedy: "请在服务器上运行 `deerflow doctor` 查看原因。",
  },
  packages: "Python 软件包",
  toolbox: {
    ready: "已安装",
    building: "正在安装",
    failed: "安装失败",
    missing: "尚未安装",
    off: "已关闭",
  },
  toolboxProgress: (installed, total) =>
    installed === 0
      ? `正在下载用于图表、文档和数据的 ${total} 个 Python 软件包。只需一次，大约几分钟；需要它们的命令会等待。`
      : `正在安装用于图表、文档和数据的 Python 软件包：${installed} / ${total}。需要它们的命令会等待。`,
  toolboxFailed: "用于图表和文档的 Python 软件包安装失败。请在服务器上运行 `deerflow doctor` 查看原因。",
};

export const sandboxStrings = { en: sandboxEn, zh: sandboxZh } as const;
