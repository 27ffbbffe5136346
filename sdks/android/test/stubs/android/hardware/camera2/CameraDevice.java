package android.hardware.camera2;

public abstract class CameraDevice implements AutoCloseable {
    public static final int TEMPLATE_STILL_CAPTURE = 2;
    public abstract CaptureRequest.Builder createCaptureRequest(int template);
    public abstract void createCaptureSession(
        java.util.List<android.view.Surface> surfaces, CameraCaptureSession.StateCallback callback, android.os.Handler handler);
    @Override public abstract void close();
    public static abstract class StateCallback {
        public abstract void onOpened(CameraDevice camera);
        public abstract void onDisconnected(CameraDevice camera);
        public abstract void onError(CameraDevice camera, int error);
    }
}
