package android.media;

public class ImageReader {
    public interface OnImageAvailableListener { void onImageAvailable(ImageReader reader); }
    public static ImageReader newInstance(int width, int height, int format, int count) { return new ImageReader(); }
    public void setOnImageAvailableListener(OnImageAvailableListener listener, android.os.Handler handler) {}
    public Image acquireLatestImage() { return null; }
    public android.view.Surface getSurface() { return new android.view.Surface(); }
    public void close() {}
}
