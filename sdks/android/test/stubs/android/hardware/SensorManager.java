package android.hardware;

public abstract class SensorManager {
    public static final int SENSOR_DELAY_NORMAL = 3;
    public abstract Sensor getDefaultSensor(int type);
    public abstract boolean registerListener(SensorEventListener listener, Sensor sensor, int delay, android.os.Handler handler);
    public abstract void unregisterListener(SensorEventListener listener);
}
