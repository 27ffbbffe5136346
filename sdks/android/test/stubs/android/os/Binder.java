package android.os;

public class Binder implements IBinder {
    /** The uid of the app that calls, which a test sets. */
    public static volatile int callingUid = 10001;
    public static int getCallingUid() { return callingUid; }
}
