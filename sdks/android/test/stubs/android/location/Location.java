package android.location;

public class Location {
    private final double latitude, longitude;
    public Location(double latitude, double longitude) { this.latitude = latitude; this.longitude = longitude; }
    public double getLatitude() { return latitude; }
    public double getLongitude() { return longitude; }
    public float getAccuracy() { return 5f; }
    public long getTime() { return 1700000000000L; }
}
