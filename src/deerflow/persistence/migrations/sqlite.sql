CREATE TABLE accepted_skills (
  user_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  CONSTRAINT pk_accepted_skills PRIMARY KEY (user_id, owner, name),
  CONSTRAINT fk_accepted_skills_user_id FOREIGN KEY(user_id) REFERENCES accounts (user_id) ON DELETE CASCADE,
  CONSTRAINT fk_accepted_skills_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE account_links (
  link_id VARCHAR(64) NOT NULL,
  user_id VARCHAR(64),
  token_hash VARCHAR(64) NOT NULL,
  email VARCHAR(255),
  role VARCHAR(16) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  CONSTRAINT pk_account_links PRIMARY KEY (link_id),
  CONSTRAINT fk_account_links_user_id FOREIGN KEY(user_id) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE accounts (
  user_id VARCHAR(64) NOT NULL,
  email VARCHAR(255) NOT NULL,
  email_key VARCHAR(255) NOT NULL,
  password_hash VARCHAR(255) NOT NULL,
  role VARCHAR(16) NOT NULL,
  is_active BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  last_login_at BIGINT,
  CONSTRAINT pk_accounts PRIMARY KEY (user_id)
);

CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE api_tokens (
  token_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  token_hash VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  scope VARCHAR(16) NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  expires_at BIGINT,
  CONSTRAINT pk_api_tokens PRIMARY KEY (token_id),
  CONSTRAINT fk_api_tokens_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE audit_entries (
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  kind VARCHAR(48) NOT NULL,
  actor VARCHAR(64),
  subject VARCHAR(64),
  outcome VARCHAR(16) NOT NULL,
  details TEXT,
  salt VARCHAR(32),
  details_hash VARCHAR(64),
  hash VARCHAR(64) NOT NULL,
  CONSTRAINT pk_audit_entries PRIMARY KEY (seq)
);

CREATE TABLE audit_head (
  head_id INTEGER NOT NULL,
  seq BIGINT NOT NULL,
  hash VARCHAR(64) NOT NULL,
  CONSTRAINT pk_audit_head PRIMARY KEY (head_id)
);

CREATE TABLE channel_chats (
  channel VARCHAR(32) NOT NULL,
  account VARCHAR(64) NOT NULL,
  chat VARCHAR(128) NOT NULL,
  topic VARCHAR(128) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  settings JSON NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_chats PRIMARY KEY (channel, account, chat, topic, owner)
);

CREATE TABLE channel_codes (
  code_hash VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  expires_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_codes PRIMARY KEY (code_hash)
);

CREATE TABLE channel_connections (
  name VARCHAR(32) NOT NULL,
  sealed BLOB NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_connections PRIMARY KEY (name)
);

CREATE TABLE channel_inbound (
  channel VARCHAR(32) NOT NULL,
  account VARCHAR(64) NOT NULL,
  update_id VARCHAR(128) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  run_id VARCHAR(64),
  received_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_inbound PRIMARY KEY (channel, account, update_id)
);

CREATE TABLE channel_leases (
  name VARCHAR(64) NOT NULL,
  process VARCHAR(64) NOT NULL,
  renewals BIGINT NOT NULL,
  restarts BIGINT NOT NULL,
  state JSON NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_leases PRIMARY KEY (name)
);

CREATE TABLE channel_outbox (
  number INTEGER NOT NULL,
  channel VARCHAR(32) NOT NULL,
  account VARCHAR(64) NOT NULL,
  chat VARCHAR(128) NOT NULL,
  topic VARCHAR(128) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  state VARCHAR(16) NOT NULL,
  run_id VARCHAR(64),
  thread_id VARCHAR(64),
  part INTEGER NOT NULL,
  repeats INTEGER NOT NULL,
  body TEXT,
  details JSON NOT NULL,
  message_id VARCHAR(128),
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_outbox PRIMARY KEY (number)
);

CREATE TABLE channel_people (
  channel VARCHAR(32) NOT NULL,
  account VARCHAR(64) NOT NULL,
  external_id VARCHAR(128) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_channel_people PRIMARY KEY (channel, account, external_id)
);

CREATE TABLE daily_spending (
  owner VARCHAR(64) NOT NULL,
  day VARCHAR(10) NOT NULL,
  tokens BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  CONSTRAINT pk_daily_spending PRIMARY KEY (owner, day)
);

CREATE TABLE deletions (
  thread_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  process VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_deletions PRIMARY KEY (thread_id)
);

CREATE TABLE feedback (
  feedback_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  run_id VARCHAR(64) NOT NULL,
  message_id VARCHAR(255) NOT NULL,
  rating INTEGER NOT NULL,
  comment TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_feedback PRIMARY KEY (feedback_id),
  CONSTRAINT fk_feedback_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE,
  CONSTRAINT fk_feedback_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);

CREATE TABLE grants (
  grant_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  resource VARCHAR(255) NOT NULL,
  thread_id VARCHAR(64),
  user_id VARCHAR(64),
  team_id VARCHAR(64),
  access VARCHAR(16) NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_grants PRIMARY KEY (grant_id),
  CONSTRAINT fk_grants_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE,
  CONSTRAINT fk_grants_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE,
  CONSTRAINT fk_grants_user_id FOREIGN KEY(user_id) REFERENCES accounts (user_id) ON DELETE CASCADE,
  CONSTRAINT fk_grants_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id) ON DELETE CASCADE
);

CREATE TABLE hooks (
  hook_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  name TEXT NOT NULL,
  kind VARCHAR(16) NOT NULL,
  settings JSON NOT NULL,
  sealed BLOB NOT NULL,
  is_enabled BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_hooks PRIMARY KEY (hook_id)
);

CREATE TABLE identities (
  identity_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  issuer VARCHAR(512) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  email VARCHAR(255) NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  CONSTRAINT pk_identities PRIMARY KEY (identity_id),
  CONSTRAINT fk_identities_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE installation (
  database_id VARCHAR(64) NOT NULL,
  CONSTRAINT pk_installation PRIMARY KEY (database_id)
);

CREATE TABLE login_attempts (
  key_hash VARCHAR(64) NOT NULL,
  kind VARCHAR(32) NOT NULL,
  user_id VARCHAR(64),
  network VARCHAR(64) NOT NULL,
  data JSON NOT NULL,
  expires_at BIGINT NOT NULL,
  CONSTRAINT pk_login_attempts PRIMARY KEY (key_hash),
  CONSTRAINT fk_login_attempts_user_id FOREIGN KEY(user_id) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE login_failures (
  subject VARCHAR(64) NOT NULL,
  failures JSON NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_login_failures PRIMARY KEY (subject)
);

CREATE TABLE login_sessions (
  session_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  token_hash VARCHAR(64) NOT NULL,
  address VARCHAR(64) NOT NULL,
  client VARCHAR(255) NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  CONSTRAINT pk_login_sessions PRIMARY KEY (session_id),
  CONSTRAINT fk_login_sessions_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE mcp_logins (
  state_hash VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  server VARCHAR(255) NOT NULL,
  sealed BLOB NOT NULL,
  expires_at BIGINT NOT NULL,
  CONSTRAINT pk_mcp_logins PRIMARY KEY (state_hash)
);

CREATE TABLE mcp_pins (
  server VARCHAR(255) NOT NULL,
  tool VARCHAR(255) NOT NULL,
  hash VARCHAR(64),
  shown JSON,
  accepted_at BIGINT,
  accepted_by VARCHAR(64),
  offered_hash VARCHAR(64),
  offered JSON,
  offered_at BIGINT,
  CONSTRAINT pk_mcp_pins PRIMARY KEY (server, tool)
);

CREATE TABLE mcp_tokens (
  owner VARCHAR(64) NOT NULL,
  server VARCHAR(255) NOT NULL,
  sealed BLOB,
  updated_at BIGINT NOT NULL,
  claim VARCHAR(64),
  claimed_until BIGINT,
  CONSTRAINT pk_mcp_tokens PRIMARY KEY (owner, server)
);

CREATE TABLE memory_changes (
  owner VARCHAR(64) NOT NULL,
  agent VARCHAR(255) NOT NULL,
  seq BIGINT NOT NULL,
  change_id VARCHAR(64) NOT NULL,
  group_id VARCHAR(64) NOT NULL,
  at BIGINT NOT NULL,
  actor VARCHAR(16) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  target VARCHAR(64) NOT NULL,
  "before" JSON,
  "after" JSON,
  source JSON,
  source_thread VARCHAR(255),
  undoes VARCHAR(64),
  CONSTRAINT pk_memory_changes PRIMARY KEY (owner, agent, seq)
);

CREATE TABLE memory_facts (
  row_id INTEGER NOT NULL,
  owner VARCHAR(64) NOT NULL,
  agent VARCHAR(255) NOT NULL,
  fact_id VARCHAR(64) NOT NULL,
  category VARCHAR(16) NOT NULL,
  confidence FLOAT NOT NULL,
  created_at BIGINT NOT NULL,
  data JSON NOT NULL,
  CONSTRAINT pk_memory_facts PRIMARY KEY (row_id)
);

CREATE TABLE memory_pending (
  owner VARCHAR(64) NOT NULL,
  agent VARCHAR(255) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  last_message_id VARCHAR(255) NOT NULL,
  is_correction BOOLEAN NOT NULL,
  is_reinforcement BOOLEAN NOT NULL,
  data JSON NOT NULL,
  due_at BIGINT NOT NULL,
  attempts INTEGER NOT NULL,
  process VARCHAR(64),
  lease_expires_at BIGINT, is_unpaid BOOLEAN DEFAULT 0 NOT NULL,
  CONSTRAINT pk_memory_pending PRIMARY KEY (owner, agent, thread_id),
  CONSTRAINT fk_memory_pending_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE memory_scopes (
  owner VARCHAR(64) NOT NULL,
  agent VARCHAR(255) NOT NULL,
  seq BIGINT NOT NULL,
  is_off BOOLEAN NOT NULL,
  updated_at BIGINT,
  CONSTRAINT pk_memory_scopes PRIMARY KEY (owner, agent)
);

CREATE VIRTUAL TABLE memory_terms USING fts5(terms, tokenize = 'ascii');

CREATE TABLE memory_watermarks (
  owner VARCHAR(64) NOT NULL,
  agent VARCHAR(255) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  message_id VARCHAR(255) NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_memory_watermarks PRIMARY KEY (owner, agent, thread_id),
  CONSTRAINT fk_memory_watermarks_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE model_connections (
  owner VARCHAR(64) NOT NULL,
  connection_id VARCHAR(64) NOT NULL,
  provider VARCHAR(64) NOT NULL,
  base_url VARCHAR(512) NOT NULL,
  sealed BLOB,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_model_connections PRIMARY KEY (owner, connection_id)
);

CREATE VIRTUAL TABLE passage_terms USING fts5(terms, project, tokenize = 'ascii');

CREATE TABLE passage_vectors (
  row_id INTEGER NOT NULL,
  project_id VARCHAR(64) NOT NULL,
  model VARCHAR(255) NOT NULL,
  signs BLOB NOT NULL,
  vector BLOB NOT NULL,
  CONSTRAINT pk_passage_vectors PRIMARY KEY (row_id),
  CONSTRAINT fk_passage_vectors_row_id FOREIGN KEY(row_id) REFERENCES passages (row_id) ON DELETE CASCADE
);

CREATE TABLE passages (
  row_id INTEGER NOT NULL,
  project_id VARCHAR(64) NOT NULL,
  file_id VARCHAR(64) NOT NULL,
  number INTEGER NOT NULL,
  position INTEGER NOT NULL,
  text TEXT NOT NULL, headings TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_passages PRIMARY KEY (row_id),
  CONSTRAINT fk_passages_file_id FOREIGN KEY(file_id) REFERENCES project_files (file_id) ON DELETE CASCADE
);

CREATE TABLE passkeys (
  passkey_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  credential_hash VARCHAR(64) NOT NULL,
  credential_id BLOB NOT NULL,
  public_key BLOB NOT NULL,
  sign_count BIGINT NOT NULL,
  is_synced BOOLEAN NOT NULL,
  is_backed_up BOOLEAN NOT NULL,
  name VARCHAR(255) NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  CONSTRAINT pk_passkeys PRIMARY KEY (passkey_id),
  CONSTRAINT fk_passkeys_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE processes (
  process VARCHAR(64) NOT NULL,
  lease_expires_at BIGINT NOT NULL,
  CONSTRAINT pk_processes PRIMARY KEY (process)
);

CREATE TABLE project_files (
  file_id VARCHAR(64) NOT NULL,
  project_id VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  size BIGINT NOT NULL,
  state VARCHAR(16) NOT NULL,
  problem TEXT,
  unit VARCHAR(16),
  pages INTEGER NOT NULL,
  passages INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  claim VARCHAR(64),
  claimed_until BIGINT,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_project_files PRIMARY KEY (file_id),
  CONSTRAINT fk_project_files_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE TABLE projects (
  project_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  former_owner VARCHAR(64),
  name TEXT NOT NULL,
  instructions TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_projects PRIMARY KEY (project_id)
);

CREATE TABLE "run_events" (
  run_id VARCHAR(64) NOT NULL,
  seq INTEGER NOT NULL,
  event VARCHAR(32) NOT NULL,
  data BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_run_events PRIMARY KEY (run_id, seq),
  CONSTRAINT fk_run_events_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);

CREATE TABLE run_file_changes (
  run_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_run_file_changes PRIMARY KEY (run_id),
  CONSTRAINT fk_run_file_changes_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);

CREATE TABLE runs (
  run_id VARCHAR(64) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  assistant_id TEXT NOT NULL,
  status VARCHAR(16) NOT NULL,
  on_disconnect VARCHAR(16) NOT NULL,
  process VARCHAR(64) NOT NULL,
  request JSON NOT NULL,
  metadata JSON NOT NULL,
  error TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL, multitask_strategy VARCHAR(16) DEFAULT 'reject' NOT NULL, attempt INTEGER DEFAULT '1' NOT NULL, idempotency_key VARCHAR(255), request_hash VARCHAR(64) DEFAULT '' NOT NULL, cancel_action VARCHAR(16), input_tokens BIGINT DEFAULT '0' NOT NULL, output_tokens BIGINT DEFAULT '0' NOT NULL, waits_for VARCHAR(16), position BIGINT DEFAULT '0' NOT NULL, started_by VARCHAR(64),
  CONSTRAINT pk_runs PRIMARY KEY (run_id),
  CONSTRAINT fk_runs_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE saved_models (
  owner VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  connection_id VARCHAR(64) NOT NULL,
  model VARCHAR(255) NOT NULL,
  settings JSON NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_saved_models PRIMARY KEY (owner, name)
);

CREATE TABLE search_backlog (
  thread_id VARCHAR(64) NOT NULL,
  CONSTRAINT pk_search_backlog PRIMARY KEY (thread_id),
  CONSTRAINT fk_search_backlog_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE search_messages (
  row_id INTEGER NOT NULL,
  owner VARCHAR(64) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  run_id VARCHAR(64),
  message_id VARCHAR(255) NOT NULL,
  part INTEGER NOT NULL,
  role VARCHAR(16) NOT NULL,
  text TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_search_messages PRIMARY KEY (row_id),
  CONSTRAINT fk_search_messages_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE,
  CONSTRAINT fk_search_messages_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE SET NULL
);

CREATE VIRTUAL TABLE "search_terms" USING fts5(terms, owner, tokenize = 'ascii', prefix = '1 2 3');

CREATE TABLE shares (
  share_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  thread_id VARCHAR(64) NOT NULL,
  token_hash VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT, run_position BIGINT, event_seq BIGINT,
  CONSTRAINT pk_shares PRIMARY KEY (share_id),
  CONSTRAINT fk_shares_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE store_items (
  owner VARCHAR(64) NOT NULL,
  namespace VARCHAR(512) NOT NULL,
  "key" VARCHAR(255) NOT NULL,
  value JSON NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_store_items PRIMARY KEY (owner, namespace, "key")
);

CREATE TABLE team_members (
  team_id VARCHAR(64) NOT NULL,
  user_id VARCHAR(64) NOT NULL,
  role VARCHAR(16) NOT NULL,
  added_at BIGINT NOT NULL,
  CONSTRAINT pk_team_members PRIMARY KEY (team_id, user_id),
  CONSTRAINT fk_team_members_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id) ON DELETE CASCADE,
  CONSTRAINT fk_team_members_user_id FOREIGN KEY(user_id) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE teams (
  team_id VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_teams PRIMARY KEY (team_id)
);

CREATE TABLE threads (
  thread_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  title TEXT,
  metadata JSON NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL, agent_title TEXT, project_id VARCHAR(64), activity BIGINT DEFAULT '0' NOT NULL,
  CONSTRAINT pk_threads PRIMARY KEY (thread_id)
);

CREATE TABLE usage_entries (
  entry_id INTEGER NOT NULL,
  owner VARCHAR(64) NOT NULL,
  thread_id VARCHAR(64),
  run_id VARCHAR(64),
  caller VARCHAR(64) NOT NULL,
  model VARCHAR(255) NOT NULL,
  calls BIGINT NOT NULL,
  unmetered_calls BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  context_tokens BIGINT,
  cost BIGINT,
  currency VARCHAR(8),
  ended_at BIGINT NOT NULL,
  CONSTRAINT pk_usage_entries PRIMARY KEY (entry_id),
  CONSTRAINT fk_usage_entries_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE SET NULL,
  CONSTRAINT fk_usage_entries_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE SET NULL
);

CREATE TABLE user_deletions (
  user_id VARCHAR(64) NOT NULL,
  process VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_user_deletions PRIMARY KEY (user_id)
);

CREATE TABLE user_profiles (
  owner VARCHAR(64) NOT NULL,
  content TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_user_profiles PRIMARY KEY (owner)
);

CREATE TABLE user_quotas (
  owner VARCHAR(64) NOT NULL,
  limits JSON NOT NULL,
  CONSTRAINT pk_user_quotas PRIMARY KEY (owner),
  CONSTRAINT fk_user_quotas_owner FOREIGN KEY(owner) REFERENCES accounts (user_id) ON DELETE CASCADE
);

CREATE TABLE web_pages (
  thread_id VARCHAR(64) NOT NULL,
  snapshot_id VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  asked_url TEXT NOT NULL,
  url TEXT NOT NULL,
  title TEXT NOT NULL,
  content_type TEXT NOT NULL,
  text_hash VARCHAR(64),
  chars INTEGER NOT NULL,
  problem TEXT,
  fetched_at BIGINT NOT NULL, position INTEGER DEFAULT '0' NOT NULL,
  CONSTRAINT pk_web_pages PRIMARY KEY (thread_id, snapshot_id),
  CONSTRAINT fk_web_pages_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE web_texts (
  thread_id VARCHAR(64) NOT NULL,
  text_hash VARCHAR(64) NOT NULL,
  owner VARCHAR(64) NOT NULL,
  chars INTEGER NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT pk_web_texts PRIMARY KEY (thread_id, text_hash),
  CONSTRAINT fk_web_texts_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE INDEX ix_accepted_skills_owner ON accepted_skills (owner);

CREATE UNIQUE INDEX ix_account_links_token_hash ON account_links (token_hash);

CREATE INDEX ix_account_links_user_id ON account_links (user_id);

CREATE UNIQUE INDEX ix_accounts_email_key ON accounts (email_key);

CREATE INDEX ix_api_tokens_owner ON api_tokens (owner);

CREATE UNIQUE INDEX ix_api_tokens_token_hash ON api_tokens (token_hash);

CREATE INDEX ix_audit_entries_actor_seq ON audit_entries (actor, seq);

CREATE INDEX ix_audit_entries_kind_seq ON audit_entries (kind, seq);

CREATE INDEX ix_audit_entries_subject_seq ON audit_entries (subject, seq);

CREATE INDEX ix_channel_chats_owner ON channel_chats (owner);

CREATE INDEX ix_channel_codes_expires_at ON channel_codes (expires_at);

CREATE INDEX ix_channel_codes_owner ON channel_codes (owner);

CREATE INDEX ix_channel_inbound_owner ON channel_inbound (owner);

CREATE INDEX ix_channel_inbound_received_at ON channel_inbound (received_at);

CREATE INDEX ix_channel_outbox_channel_account_state ON channel_outbox (channel, account, state);

CREATE INDEX ix_channel_outbox_owner ON channel_outbox (owner);

CREATE INDEX ix_channel_outbox_updated_at ON channel_outbox (updated_at);

CREATE INDEX ix_channel_people_owner ON channel_people (owner);

CREATE UNIQUE INDEX ix_feedback_run_id_owner_message_id ON feedback (run_id, owner, message_id);

CREATE INDEX ix_feedback_thread_id ON feedback (thread_id);

CREATE UNIQUE INDEX ix_grants_resource_team_id ON grants (owner, kind, resource, team_id);

CREATE UNIQUE INDEX ix_grants_resource_user_id ON grants (owner, kind, resource, user_id);

CREATE INDEX ix_grants_team_id ON grants (team_id);

CREATE INDEX ix_grants_thread_id ON grants (thread_id);

CREATE INDEX ix_grants_user_id ON grants (user_id);

CREATE INDEX ix_hooks_owner ON hooks (owner);

CREATE UNIQUE INDEX ix_identities_issuer_subject ON identities (issuer, subject);

CREATE INDEX ix_identities_owner ON identities (owner);

CREATE INDEX ix_login_attempts_expires_at ON login_attempts (expires_at);

CREATE INDEX ix_login_attempts_network ON login_attempts (network);

CREATE INDEX ix_login_failures_updated_at ON login_failures (updated_at);

CREATE INDEX ix_login_sessions_owner ON login_sessions (owner);

CREATE UNIQUE INDEX ix_login_sessions_token_hash ON login_sessions (token_hash);

CREATE INDEX ix_mcp_logins_owner ON mcp_logins (owner);

CREATE INDEX ix_mcp_logins_server ON mcp_logins (server);

CREATE INDEX ix_mcp_tokens_server ON mcp_tokens (server);

CREATE UNIQUE INDEX ix_memory_changes_change_id ON memory_changes (change_id);

CREATE INDEX ix_memory_changes_owner_agent_target_seq ON memory_changes (owner, agent, target, seq);

CREATE INDEX ix_memory_changes_owner_source_thread ON memory_changes (owner, source_thread);

CREATE INDEX ix_memory_facts_owner_agent_category ON memory_facts (owner, agent, category);

CREATE INDEX ix_memory_facts_owner_agent_confidence_created_at ON memory_facts (owner, agent, confidence, created_at);

CREATE UNIQUE INDEX ix_memory_facts_owner_agent_fact_id ON memory_facts (owner, agent, fact_id);

CREATE INDEX ix_memory_pending_due_at ON memory_pending (due_at);

CREATE INDEX ix_memory_pending_thread_id ON memory_pending (thread_id);

CREATE INDEX ix_memory_watermarks_thread_id ON memory_watermarks (thread_id);

CREATE UNIQUE INDEX ix_model_connections_owner_provider_base_url ON model_connections (owner, provider, base_url);

CREATE INDEX ix_passage_vectors_project_id_model_row_id_signs ON passage_vectors (project_id, model, row_id, signs);

CREATE UNIQUE INDEX ix_passages_file_id_number ON passages (file_id, number);

CREATE UNIQUE INDEX ix_passkeys_credential_hash ON passkeys (credential_hash);

CREATE INDEX ix_passkeys_owner ON passkeys (owner);

CREATE UNIQUE INDEX ix_project_files_project_id_name ON project_files (project_id, name);

CREATE INDEX ix_project_files_state_created_at ON project_files (state, created_at);

CREATE INDEX ix_projects_owner_updated_at ON projects (owner, updated_at);

CREATE INDEX ix_runs_active_process ON runs (process) WHERE status IN ('pending', 'running');

CREATE UNIQUE INDEX ix_runs_owner_idempotency_key ON runs (owner, idempotency_key);

CREATE INDEX ix_runs_owner_position ON runs (owner, position);

CREATE INDEX ix_runs_position ON runs (position);

CREATE UNIQUE INDEX ix_runs_running_thread_id ON runs (thread_id) WHERE status = 'running';

CREATE INDEX ix_runs_thread_id_position ON runs (thread_id, position);

CREATE UNIQUE INDEX ix_saved_models_owner_connection_id_model ON saved_models (owner, connection_id, model);

CREATE INDEX ix_search_messages_run_id ON search_messages (run_id);

CREATE UNIQUE INDEX ix_search_messages_thread_id_message_id_part ON search_messages (thread_id, message_id, part);

CREATE INDEX ix_shares_thread_id ON shares (thread_id);

CREATE UNIQUE INDEX ix_shares_token_hash ON shares (token_hash);

CREATE INDEX ix_team_members_user_id ON team_members (user_id);

CREATE INDEX ix_threads_activity ON threads (activity);

CREATE INDEX ix_threads_owner_activity ON threads (owner, activity);

CREATE INDEX ix_threads_project_id ON threads (project_id);

CREATE INDEX ix_usage_entries_owner_ended_at ON usage_entries (owner, ended_at);

CREATE INDEX ix_usage_entries_run_id ON usage_entries (run_id);

CREATE INDEX ix_usage_entries_thread_id ON usage_entries (thread_id);

CREATE INDEX ix_web_pages_thread_id_position ON web_pages (thread_id, position);

CREATE TRIGGER memory_facts_deleted AFTER DELETE ON memory_facts BEGIN DELETE FROM memory_terms WHERE rowid = old.row_id; END;

CREATE TRIGGER passages_deleted AFTER DELETE ON passages BEGIN DELETE FROM passage_terms WHERE rowid = old.row_id; END;

CREATE TRIGGER search_messages_deleted AFTER DELETE ON search_messages BEGIN DELETE FROM search_terms WHERE rowid = old.row_id; END;

