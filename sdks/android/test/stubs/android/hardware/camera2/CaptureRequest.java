package android.hardware.camera2;

public class CaptureRequest {
    public static final class Key<T> {}
    public static final Key<Byte> JPEG_QUALITY = new Key<>();
    public static class Builder {
        public void addTarget(android.view.Surface surface) {}
        public <T> void set(Key<T> key, T value) {}
        public CaptureRequest build() { return new CaptureRequest(); }
    }
}
