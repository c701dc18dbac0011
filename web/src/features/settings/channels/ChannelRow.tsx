/** Connected chat app: its state, what can be done with it, and the code for one's own account. */

import { useState } from "react";
import type { Channel } from "@/api/channels";
import { OneTimeSecret } from "@/features/settings/account/OneTimeSecret";
import { Problem } from "@/features/settings/channels/Problem";
import { useChannelChange, useChannelsApi } from "@/features/settings/channels/useChannels";
import { useChannelStrings } from "@/i18n/channels";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatMoment } from "@/i18n/format";
import { Button } from "@/ui/Button";
import { RelativeTime } from "@/ui/RelativeTime";

export function ChannelRow({ channel, canChange }: { channel: Channel; canChange: boolean }) {
  const strings = useChannelStrings();
  const page = useStrings();
  const language = useLanguage();
  const channels = useChannelsApi();
  const { name } = channel;
  const [isRemoving, setRemoving] = useState(false);
  const code = useChannelChange(() => channels.createCode(name));
  const restart = useChannelChange(() => channels.restart(name));
  const test = useChannelChange(() => channels.sendTest(name));
  const remove = useChannelChange(() => channels.remove(name));
  const isUsed = !channel.is_overridden && channel.is_readable;
  const notice = restart.isSuccess ? strings.restarting : test.isSuccess ? strings.sent : null;
  return (
    <div className="flex flex-col gap-3 px-4 py-3">
      <div>
        <div className="flex flex-wrap items-baseline gap-x-2">
          <h3 className="font-medium">{channel.title}</h3>
          <span className="text-small text-faint">{strings.sources[channel.source]}</span>
        </div>
        <State channel={channel} />
      </div>
      <div className="flex flex-wrap gap-2">
        {isUsed && (
          <Button primary disabled={code.isPending} onClick={() => code.mutate(undefined)}>
            {strings.connectMine}
          </Button>
        )}
        {isUsed && (
          <Button disabled={test.isPending} onClick={() => test.mutate(undefined)}>
            {strings.test}
          </Button>
        )}
        {isUsed && canChange && (
          <Button disabled={restart.isPending} onClick={() => restart.mutate(undefined)}>
            {strings.restart}
          </Button>
        )}
        {canChange && channel.source === "page" && (
          <Button onClick={() => setRemoving(true)}>{strings.remove}</Button>
        )}
      </div>
      {isRemoving && (
        <div role="alert" className="flex flex-wrap items-center gap-2 rounded-box bg-warning-tint px-3 py-2">
          <span className="min-w-0 flex-1 basis-40">{strings.removeSure(channel.title)}</span>
          <Button disabled={remove.isPending} onClick={() => remove.mutate(undefined)}>
            {strings.remove}
          </Button>
          <Button onClick={() => setRemoving(false)}>{page.cancel}</Button>
        </div>
      )}
      {code.data && (
        <div className="flex flex-col gap-1 rounded-box bg-tint px-3 py-2">
          <OneTimeSecret hint={strings.codeHint(channel.title)} text={code.data.command} />
          <p className="text-small text-soft">
            {strings.expires} {formatMoment(code.data.expires_at, language)}
          </p>
        </div>
      )}
      <p role="status" className="text-small text-soft empty:hidden">
        {notice}
      </p>
      <Problem error={code.error ?? restart.error ?? test.error ?? remove.error} />
    </div>
  );
}

function State({ channel }: { channel: Channel }) {
  const strings = useChannelStrings();
  if (channel.is_overridden) return <p className="text-small text-soft">{strings.overridden}</p>;
  if (!channel.is_readable) return <p className="text-small text-warning">{strings.unreadable}</p>;
  if (!channel.is_running) return <p className="text-small text-warning">{strings.stopped}</p>;
  const counts = strings.counts(channel.received, channel.sent);
  const error = channel.last_error !== null && (
    <p className="text-small text-soft [overflow-wrap:anywhere]">
      {strings.lastError} {channel.last_error}
      {channel.last_error_at !== null && (
        <>
          {" "}
          (<RelativeTime at={channel.last_error_at} />)
        </>
      )}
    </p>
  );
  if (channel.connected_since === null)
    return (
      <>
        <p className="text-small text-warning">{channel.last_error ? strings.failed : strings.connecting}</p>
        {error}
      </>
    );
  return (
    <>
      <p className="text-small text-soft">
        {strings.connectedAs(channel.bot)} {strings.since} <RelativeTime at={channel.connected_since} /> ·{" "}
        {counts}
      </p>
      {error}
    </>
  );
}
