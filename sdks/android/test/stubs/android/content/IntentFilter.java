package android.content;

public class IntentFilter {
    public final java.util.List<String> actions = new java.util.ArrayList<>();
    public final void addAction(String action) { actions.add(action); }
    public final java.util.List<String> schemes = new java.util.ArrayList<>();
    public final void addDataScheme(String scheme) { schemes.add(scheme); }
}
