package android.content.pm;

import android.content.Intent;
import java.util.List;

public abstract class PackageManager {
    public static final int GET_META_DATA = 128, PERMISSION_GRANTED = 0, PERMISSION_DENIED = -1;
    public static class NameNotFoundException extends Exception {}
    public abstract List<ResolveInfo> queryIntentServices(Intent intent, int flags);
    public abstract String[] getPackagesForUid(int uid);
    public abstract PackageInfo getPackageInfo(String name, int flags) throws NameNotFoundException;
    public abstract Intent getLaunchIntentForPackage(String name);
}
