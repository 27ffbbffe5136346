package android.content;

/** An action with its package and extras. */
public class Intent {
    public static final int FLAG_ACTIVITY_NEW_TASK = 0x10000000;
    public static final String ACTION_PACKAGE_ADDED = "android.intent.action.PACKAGE_ADDED";
    public static final String ACTION_PACKAGE_REPLACED = "android.intent.action.PACKAGE_REPLACED";
    public static final String ACTION_PACKAGE_REMOVED = "android.intent.action.PACKAGE_REMOVED";
    private final String action;
    private String packageName;
    private final java.util.Map<String, Object> extras = new java.util.HashMap<>();
    public Intent(String action) { this.action = action; }
    public Intent(String action, android.net.Uri data) { this.action = action; }
    public Intent(Context context, Class<?> target) { this.action = target.getName(); }
    public String getAction() { return action; }
    public Intent setPackage(String name) { packageName = name; return this; }
    public String getPackage() { return packageName; }
    public Intent addFlags(int flags) { return this; }
    public Intent putExtra(String key, String value) { extras.put(key, value); return this; }
    public Intent putExtra(String key, int value) { extras.put(key, value); return this; }
    public String getStringExtra(String key) { return (String) extras.get(key); }
    public int getIntExtra(String key, int other) { return extras.containsKey(key) ? (int) extras.get(key) : other; }
}
