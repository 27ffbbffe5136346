package android.app;

import android.content.Context;
import android.content.Intent;
import android.os.Bundle;

public class Activity extends android.content.ContextWrapper {
    private static Context next;
    public Intent intent;
    public boolean isFinished;
    /** What a test lets happen when this screen asks for permissions. */
    public static java.util.function.BiConsumer<Activity, String[]> onRequest = (activity, permissions) -> {};
    public static java.util.function.Predicate<String> rationale = permission -> false;
    public Activity() { super(next); }
    /** Android makes screens without arguments: their context is named before. */
    public static void use(Context context) { next = context; }
    protected void onCreate(Bundle state) {}
    protected void onDestroy() {}
    public Intent getIntent() { return intent; }
    public void finish() { isFinished = true; }
    public boolean isFinishing() { return isFinished; }
    public final void requestPermissions(String[] permissions, int code) { onRequest.accept(this, permissions); }
    public void onRequestPermissionsResult(int code, String[] permissions, int[] results) {}
    public boolean shouldShowRequestPermissionRationale(String permission) { return rationale.test(permission); }
    /** What Android does with a new screen. */
    public void open(Intent given) { intent = given; onCreate(null); }
    public void destroy() { onDestroy(); }
}
