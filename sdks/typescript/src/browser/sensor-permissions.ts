/** The permission that each type of the tool `sensors` needs. */
export const SENSOR_PERMISSIONS: Readonly<Record<string, string>> = {
  accelerometer: 'accelerometer',
  gyroscope: 'gyroscope',
  gps: 'geolocation',
};
