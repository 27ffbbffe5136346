package android.media;

/** It has the image that a test delivers. */
public class ImageReader {
    public interface OnImageAvailableListener { void onImageAvailable(ImageReader reader); }
    /** The reader that was made last. */
    public static volatile ImageReader last;
    private OnImageAvailableListener listener;
    private Image image;
    public static ImageReader newInstance(int width, int height, int format, int count) { return last = new ImageReader(); }
    public void setOnImageAvailableListener(OnImageAvailableListener given, android.os.Handler handler) { listener = given; }
    public Image acquireLatestImage() { return image; }
    public android.view.Surface getSurface() { return new android.view.Surface(); }
    public void close() {}
    public void deliver(byte[] data) {
        image = new Image() {
            @Override public Plane[] getPlanes() {
                return new Plane[] {new Plane() {
                    @Override public java.nio.ByteBuffer getBuffer() { return java.nio.ByteBuffer.wrap(data); }
                }};
            }
            @Override public void close() {}
        };
        listener.onImageAvailable(this);
    }
}
