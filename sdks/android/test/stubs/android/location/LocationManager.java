package android.location;

public abstract class LocationManager {
    public static final String GPS_PROVIDER = "gps";
    public abstract boolean isProviderEnabled(String provider);
    public abstract void requestLocationUpdates(String provider, long ms, float meters, LocationListener listener, android.os.Looper looper);
    public abstract Location getLastKnownLocation(String provider);
    public abstract void removeUpdates(LocationListener listener);
}
