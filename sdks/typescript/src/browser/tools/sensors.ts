import { BrowserToolError } from '../browser-tool-error.js';
import { readMotion } from '../motion.js';
import { findPosition } from '../position.js';
import { SENSOR_PERMISSIONS } from '../sensor-permissions.js';
import { type BrowserTool, PERSON_SECONDS, READ_ONLY } from '../tool.js';

type SensorType = 'accelerometer' | 'gyroscope' | 'gps';

/** One reading of a sensor. */
export const sensors: BrowserTool<'sensors'> = {
  name: 'sensors',
  description: 'Read sensor data',
  parameters: {
    type: 'object',
    properties: { type: { type: 'string', enum: ['accelerometer', 'gyroscope', 'gps'] } },
    required: ['type'],
  },
  permissions: Object.values(SENSOR_PERMISSIONS),
  timeout: PERSON_SECONDS,
  annotations: READ_ONLY,
  handler: async ({ type }: { type: SensorType }, context) => {
    switch (type) {
      case 'gps': {
        const { latitude, longitude, accuracy } = (await findPosition({ enableHighAccuracy: true }, context?.signal))
          .coords;
        return { latitude, longitude, accuracy };
      }
      case 'accelerometer':
      case 'gyroscope':
        return readMotion(type, context?.signal);
      default:
        throw new BrowserToolError(
          'invalid',
          `There is no sensor '${type}': name 'accelerometer', 'gyroscope' or 'gps'.`,
        );
    }
  },
};
