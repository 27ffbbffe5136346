// A device of the TypeScript SDK: lifts parcels, and prints each parcel when it begins. node device.mjs SDK URL TOKEN LABEL
const [, , sdk, url, token, label] = process.argv;
const { Device } = await import(sdk);
const device = new Device({ url, token, label, concurrency: 8, backoff: { first: 100, longest: 1000, spread: 0.5 } });
device.tool({
  name: 'lift',
  description: 'Lift a parcel.',
  parameters: { type: 'object', properties: { parcel: { type: 'string' } }, required: ['parcel'] },
  timeout: 60,
  handler: async ({ parcel }) => {
    console.log(parcel);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return parcel;
  },
});
await device.run();
