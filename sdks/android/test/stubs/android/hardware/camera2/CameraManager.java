package android.hardware.camera2;

public abstract class CameraManager {
    public abstract String[] getCameraIdList();
    public abstract CameraCharacteristics getCameraCharacteristics(String id);
    public abstract void openCamera(String id, CameraDevice.StateCallback callback, android.os.Handler handler);
}
