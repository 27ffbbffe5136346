import { findPosition } from '../position.js';
import { type BrowserTool, PERSON_SECONDS, READ_ONLY } from '../tool.js';

interface LocationArguments {
  readonly high_accuracy?: boolean;
  readonly max_age_seconds?: number;
}

/** Where the device is. */
export const getLocation: BrowserTool<'get_location'> = {
  name: 'get_location',
  description: "Find where the person's device is: latitude and longitude in degrees, accuracy in metres.",
  parameters: {
    type: 'object',
    properties: {
      high_accuracy: { type: 'boolean', description: 'Whether to use GPS where there is one: slower. Default false' },
      max_age_seconds: {
        type: 'number',
        description: 'How old a location may be that the device knows already. Default 60',
        minimum: 0,
        maximum: 86_400,
      },
    },
    required: [],
    additionalProperties: false,
  },
  permissions: ['geolocation'],
  timeout: PERSON_SECONDS,
  annotations: READ_ONLY,
  handler: async ({ high_accuracy = false, max_age_seconds = 60 }: LocationArguments, context) => {
    const options = { enableHighAccuracy: high_accuracy, maximumAge: max_age_seconds * 1000 };
    const { coords, timestamp } = await findPosition(options, context?.signal);
    const { latitude, longitude, accuracy, altitude, heading, speed } = coords;
    const found_at = new Date(timestamp).toISOString();
    return { latitude, longitude, accuracy, altitude, heading, speed, found_at };
  },
};
