package android.os;

public class Build {
    public static final String MODEL = "Stub 1", MANUFACTURER = "Nobody";
    public static class VERSION {
        public static final String RELEASE = "14";
        public static final int SDK_INT = 34;
    }
}
