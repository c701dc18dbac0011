/** Chat apps: state, the connect form, and the chat accounts of the person. */

import type { ChatAccount } from "@/api/channels";
import { ChannelRow } from "@/features/settings/channels/ChannelRow";
import { ConnectForm } from "@/features/settings/channels/ConnectForm";
import { Hooks } from "@/features/settings/channels/Hooks";
import { Problem } from "@/features/settings/channels/Problem";
import { useChannelChange, useChannels, useChannelsApi } from "@/features/settings/channels/useChannels";
import { Fact, Section } from "@/features/settings/Section";
import { useChannelStrings } from "@/i18n/channels";
import { PageFrame } from "@/layout/PageFrame";
import { Button } from "@/ui/Button";
import { EmptyState, ErrorState } from "@/ui/states";

export function ChannelsPage() {
  const strings = useChannelStrings();
  const found = useChannels();
  if (found.data === undefined)
    return (
      <PageFrame title={strings.title}>
        {found.isError && <ErrorState text={strings.unavailable} onRetry={() => void found.refetch()} />}
      </PageFrame>
    );
  const { channels, apps, accounts, can_change } = found.data;
  return (
    <PageFrame title={strings.title}>
      <div className="flex flex-col gap-8">
        {channels.length === 0 ? (
          <EmptyState text={strings.none}>
            {!can_change && <p className="text-small text-faint">{strings.noneHint}</p>}
          </EmptyState>
        ) : (
          <Section title={strings.apps}>
            {channels.map((channel) => (
              <ChannelRow
                key={`${channel.source} ${channel.name}`}
                channel={channel}
                canChange={can_change}
              />
            ))}
          </Section>
        )}
        {(channels.length > 0 || accounts.length > 0) && <Accounts accounts={accounts} />}
        {can_change && <ConnectForm apps={apps} />}
        <Hooks />
      </div>
    </PageFrame>
  );
}

function Accounts({ accounts }: { accounts: readonly ChatAccount[] }) {
  const strings = useChannelStrings();
  const channels = useChannelsApi();
  const disconnect = useChannelChange(channels.disconnect);
  return (
    <Section title={strings.accounts}>
      {accounts.length === 0 && <Fact name={strings.noAccounts}>{null}</Fact>}
      {accounts.map((account) => (
        <Fact
          key={`${account.channel} ${account.external_id}`}
          name={
            <>
              <p className="[overflow-wrap:anywhere]">{account.name}</p>
              <p className="text-small text-faint [overflow-wrap:anywhere]">
                {account.channel} · {account.external_id}
              </p>
            </>
          }
        >
          <Button
            aria-label={strings.disconnectAccount(account.name)}
            disabled={disconnect.isPending}
            onClick={() => disconnect.mutate(account)}
          >
            {strings.disconnect}
          </Button>
        </Fact>
      ))}
      {disconnect.isError && (
        <div className="px-4 py-2">
          <Problem error={disconnect.error} />
        </div>
      )}
    </Section>
  );
}
