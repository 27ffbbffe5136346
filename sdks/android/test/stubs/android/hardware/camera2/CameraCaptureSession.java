package android.hardware.camera2;

public abstract class CameraCaptureSession {
    public static abstract class CaptureCallback {}
    public abstract int capture(CaptureRequest request, CaptureCallback callback, android.os.Handler handler);
    public static abstract class StateCallback {
        public abstract void onConfigured(CameraCaptureSession session);
        public abstract void onConfigureFailed(CameraCaptureSession session);
    }
}
