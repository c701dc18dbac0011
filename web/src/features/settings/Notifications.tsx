/** Setting for notifications of the browser. */

import { useState } from "react";
import { Fact, Section } from "@/features/settings/Section";
import { useWorkspaceParts } from "@/i18n/workspaceParts";
import { useActions, usePage } from "@/state/context";
import { Switch } from "@/ui/Switch";

export function Notifications() {
  const strings = useWorkspaceParts();
  const actions = useActions();
  const supported = "Notification" in window;
  const notify = usePage((page) => page.preferences.notify);
  const [permission, setPermission] = useState(supported ? Notification.permission : "denied");
  const switchTo = async (on: boolean) => {
    // The browser is asked only when notifications are switched on.
    const given = on ? await Notification.requestPermission() : permission;
    setPermission(given);
    actions.prefer({ notify: on && given === "granted" });
  };
  const hint = !supported
    ? strings.notifyUnsupported
    : permission === "denied"
      ? strings.notifyBlocked
      : strings.notifyHint;
  return (
    <Section title={strings.notifications}>
      <Fact
        name={
          <>
            {strings.notifyMe}
            <p className="text-small text-faint">{hint}</p>
          </>
        }
      >
        <Switch
          on={notify && permission === "granted"}
          label={strings.notifyMe}
          disabled={!supported}
          onSwitch={(on) => void switchTo(on)}
        />
      </Fact>
    </Section>
  );
}
