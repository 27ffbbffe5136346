package android;

public final class Manifest {
    public static final class permission {
        public static final String CAMERA = "android.permission.CAMERA";
        public static final String READ_CONTACTS = "android.permission.READ_CONTACTS";
        public static final String ACCESS_FINE_LOCATION = "android.permission.ACCESS_FINE_LOCATION";
    }
}
