"""Configurations of the founding documents, as they are printed."""

GUIDE = """
models:
  - name: gpt-4
    use: langchain_openai:ChatOpenAI
    model: gpt-4
    api_key: $OPENAI_API_KEY
tools:
  - name: web_search
    use: deerflow.community.tavily:tavily_search
sandbox:
  use: deerflow.community.aio_sandbox:AioSandboxProvider
memory:
  enabled: true
  debounce_seconds: 30
subagents:
  enabled: true
"""
EXTENSIONS = """
{"mcpServers": {"github": {"enabled": true, "type": "stdio", "command": "npx",
                           "args": ["-y", "@modelcontextprotocol/server-github"]}},
 "skills": {"research": {"enabled": true}, "report-generation": {"enabled": true}}}
"""
CONTAINERS = """
sandbox:
  use: deerflow.community.aio_sandbox:AioSandboxProvider
  image: some-registry/all-in-one-sandbox:latest
  port: 8080
  container_prefix: deer-flow-sandbox
  idle_timeout: 600
  replicas: 3
  mounts: [{host_path: /home/user/projects, container_path: /mnt/projects, read_only: false}]
"""
MEMORY = """
memory: {enabled: true, storage_path: memory.json, debounce_seconds: 30, model_name: minimax-m2.7, max_facts: 100,
         fact_confidence_threshold: 0.7, injection_enabled: true, max_injection_tokens: 2000}
"""
