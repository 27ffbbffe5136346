import { needPage } from '../support.js';
import { type BrowserTool, READ_ONLY } from '../tool.js';

interface UserAgentData {
  readonly mobile: boolean;
  getHighEntropyValues(hints: string[]): Promise<{ platform?: string; platformVersion?: string; model?: string }>;
}

type Told = Navigator & {
  readonly userAgentData?: UserAgentData;
  readonly deviceMemory?: number;
  readonly connection?: { readonly effectiveType?: string };
};

/** What the browser tells of the device. */
export const deviceInfo: BrowserTool<'device_info'> = {
  name: 'device_info',
  description: 'Get device information',
  parameters: { type: 'object', properties: {}, required: [] },
  annotations: READ_ONLY,
  handler: async () => {
    needPage('The device');
    const told = navigator as Told;
    return {
      ...(await platformOf(told)),
      user_agent: told.userAgent,
      locale: told.language,
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      screen: { width: screen.width, height: screen.height, pixel_ratio: devicePixelRatio },
      window: { width: innerWidth, height: innerHeight },
      touch_points: told.maxTouchPoints,
      processors: told.hardwareConcurrency,
      memory_gb: told.deviceMemory ?? null,
      online: told.onLine,
      connection: told.connection?.effectiveType ?? null,
    };
  },
};

async function platformOf(told: Told): Promise<Record<string, unknown>> {
  const data = told.userAgentData;
  if (data === undefined) {
    return { model: null, platform: null, platform_version: null, mobile: /Mobi/.test(told.userAgent) };
  }
  const more = await data.getHighEntropyValues(['platformVersion', 'model']);
  return {
    model: more.model || null,
    platform: more.platform ?? null,
    platform_version: more.platformVersion || null,
    mobile: data.mobile,
  };
}
