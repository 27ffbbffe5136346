package android.content;

import android.content.pm.ApplicationInfo;
import android.content.pm.PackageManager;

public abstract class Context {
    public static final int MODE_PRIVATE = 0;
    public static final String SENSOR_SERVICE = "sensor", LOCATION_SERVICE = "location", CAMERA_SERVICE = "camera";
    public abstract PackageManager getPackageManager();
    public abstract ContentResolver getContentResolver();
    public abstract String getPackageName();
    public abstract ApplicationInfo getApplicationInfo();
    public abstract SharedPreferences getSharedPreferences(String name, int mode);
    public abstract void startActivity(Intent intent);
    public abstract int checkSelfPermission(String permission);
    public abstract Intent registerReceiver(BroadcastReceiver receiver, IntentFilter filter);
    public abstract void unregisterReceiver(BroadcastReceiver receiver);
    public abstract Object getSystemService(String name);
}
