package android.content;

import android.content.pm.ApplicationInfo;
import android.content.pm.PackageManager;

public class ContextWrapper extends Context {
    private final Context base;
    public ContextWrapper(Context base) { this.base = base; }
    public PackageManager getPackageManager() { return base.getPackageManager(); }
    public ContentResolver getContentResolver() { return base.getContentResolver(); }
    public String getPackageName() { return base.getPackageName(); }
    public ApplicationInfo getApplicationInfo() { return base.getApplicationInfo(); }
    public SharedPreferences getSharedPreferences(String name, int mode) { return base.getSharedPreferences(name, mode); }
    public void startActivity(Intent intent) { base.startActivity(intent); }
    public int checkSelfPermission(String permission) { return base.checkSelfPermission(permission); }
    public Intent registerReceiver(BroadcastReceiver receiver, IntentFilter filter) { return base.registerReceiver(receiver, filter); }
    public void unregisterReceiver(BroadcastReceiver receiver) { base.unregisterReceiver(receiver); }
    public Object getSystemService(String name) { return base.getSystemService(name); }
}
