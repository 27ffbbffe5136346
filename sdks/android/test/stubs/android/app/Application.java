package android.app;

import android.os.Bundle;

public class Application extends android.content.ContextWrapper {
    public final java.util.List<ActivityLifecycleCallbacks> callbacks = new java.util.ArrayList<>();
    public Application(android.content.Context base) { super(base); }
    public void registerActivityLifecycleCallbacks(ActivityLifecycleCallbacks given) { callbacks.add(given); }
    public interface ActivityLifecycleCallbacks {
        void onActivityCreated(Activity activity, Bundle state);
        void onActivityStarted(Activity activity);
        void onActivityResumed(Activity activity);
        void onActivityPaused(Activity activity);
        void onActivityStopped(Activity activity);
        void onActivitySaveInstanceState(Activity activity, Bundle state);
        void onActivityDestroyed(Activity activity);
    }
}
