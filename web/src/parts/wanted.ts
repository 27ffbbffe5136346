import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';

/**
 * What a switch or a box shows, and how the person turns it. Until the gateway has the change it shows what the person
 * wants, however often its list is drawn anew. `onChange` is called again only after the call before has ended, with
 * what is wanted then: so two quick clicks arrive in their order.
 *
 *     const [isOn, turn] = useWanted(tool.enabled, async (isOn) => { … });
 */
export function useWanted(isOn: boolean, onChange: (isOn: boolean) => unknown): [boolean, (isOn: boolean) => void] {
  const wanted = useSignal<boolean | undefined>(undefined);
  const isSending = useRef(false);
  const send = useRef(onChange);
  send.current = onChange;
  const turn = async (value: boolean) => {
    wanted.value = value;
    if (isSending.current) return;
    isSending.current = true;
    try {
      for (let sent: boolean | undefined; sent !== wanted.value; ) {
        sent = wanted.value;
        if (sent !== undefined) await send.current(sent);
      }
    } finally {
      isSending.current = false;
      wanted.value = undefined;
    }
  };
  return [wanted.value ?? isOn, (value) => void turn(value)];
}
