package android.hardware.camera2;

public abstract class CameraCharacteristics {
    public static final class Key<T> {}
    public static final int LENS_FACING_BACK = 1;
    public static final Key<Integer> LENS_FACING = new Key<>();
    public static final Key<android.hardware.camera2.params.StreamConfigurationMap> SCALER_STREAM_CONFIGURATION_MAP = new Key<>();
    public abstract <T> T get(Key<T> key);
}
