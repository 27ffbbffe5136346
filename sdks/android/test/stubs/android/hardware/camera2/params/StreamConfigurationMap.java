package android.hardware.camera2.params;

public abstract class StreamConfigurationMap { public abstract android.util.Size[] getOutputSizes(int format); }
